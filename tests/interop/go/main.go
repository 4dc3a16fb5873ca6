// A client of the SDK in Go against the devnet's gRPC: it simulates with the two signers that the SDK has for that, signs, sends, and finds
// its transaction. Beside it CometBFT's own client reads and verifies the whole chain over the RPC, and hears of blocks and transactions.
//
// Usage: interop RPC GRPC CHAIN_ID PREFIX DENOM MNEMONIC RECIPIENT
package main

import (
	"context"
	"encoding/base64"
	"fmt"
	"os"
	"time"

	clienttx "github.com/cosmos/cosmos-sdk/client/tx"
	"github.com/cosmos/cosmos-sdk/codec"
	codectypes "github.com/cosmos/cosmos-sdk/codec/types"
	cryptocodec "github.com/cosmos/cosmos-sdk/crypto/codec"
	"github.com/cosmos/cosmos-sdk/crypto/hd"
	"github.com/cosmos/cosmos-sdk/crypto/keyring"
	sdk "github.com/cosmos/cosmos-sdk/types"
	txtypes "github.com/cosmos/cosmos-sdk/types/tx"
	"github.com/cosmos/cosmos-sdk/types/tx/signing"
	authtx "github.com/cosmos/cosmos-sdk/x/auth/tx"
	authtypes "github.com/cosmos/cosmos-sdk/x/auth/types"
	banktypes "github.com/cosmos/cosmos-sdk/x/bank/types"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

const keyName = "member"

func must[T any](value T, err error) T {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	return value
}

func main() {
	rpc, address, chainID, prefix, denom, mnemonic, recipient := os.Args[1], os.Args[2], os.Args[3], os.Args[4], os.Args[5], os.Args[6], os.Args[7]
	config := sdk.GetConfig()
	config.SetBech32PrefixForAccount(prefix, prefix+"pub")

	registry := codectypes.NewInterfaceRegistry()
	cryptocodec.RegisterInterfaces(registry)
	authtypes.RegisterInterfaces(registry)
	banktypes.RegisterInterfaces(registry)
	proto := codec.NewProtoCodec(registry)
	txConfig := authtx.NewTxConfig(proto, authtx.DefaultSignModes)
	keys := keyring.NewInMemory(proto)
	record := must(keys.NewAccount(keyName, mnemonic, "", sdk.FullFundraiserPath, hd.Secp256k1))
	sender := must(record.GetAddress())
	to := must(sdk.AccAddressFromBech32(recipient))

	connection := must(grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials())))
	defer connection.Close()
	ctx := context.Background()
	node := connectComet(ctx, rpc, chainID)
	found := must(authtypes.NewQueryClient(connection).Account(ctx, &authtypes.QueryAccountRequest{Address: sender.String()}))
	var account sdk.AccountI
	if err := registry.UnpackAny(found.Account, &account); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	checkReads(ctx, connection, registry, sender, account, denom)
	message := banktypes.NewMsgSend(sender, to, sdk.NewCoins(sdk.NewInt64Coin(denom, 11)))
	factory := clienttx.Factory{}.
		WithChainID(chainID).WithKeybase(keys).WithTxConfig(txConfig).WithFromName(keyName).
		WithAccountNumber(account.GetAccountNumber()).WithSequence(account.GetSequence()).
		WithGasAdjustment(1.3).WithGasPrices("0.025" + denom).WithSignMode(signing.SignMode_SIGN_MODE_DIRECT)

	// Without a key of its own the SDK simulates with one that has no bytes.
	simulated := must(factory.BuildSimTx(message))
	fmt.Printf("simulation %s\n", base64.StdEncoding.EncodeToString(simulated))
	_, gas, err := clienttx.CalculateGas(connection, factory, message)
	gas = must(gas, err)
	_, withKey, err := clienttx.CalculateGas(connection, factory.WithSimulateAndExecute(true), message)
	withKey = must(withKey, err)

	factory = factory.WithGas(gas)
	builder := must(factory.BuildUnsignedTx(message))
	if err := clienttx.Sign(ctx, factory, keyName, builder, true); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	bytes := must(txConfig.TxEncoder()(builder.GetTx()))
	service := txtypes.NewServiceClient(connection)
	sent := must(service.BroadcastTx(ctx, &txtypes.BroadcastTxRequest{TxBytes: bytes, Mode: txtypes.BroadcastMode_BROADCAST_MODE_SYNC}))
	check(sent.TxResponse.Code == 0, "refused: %s", sent.TxResponse.RawLog)
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		included, err := service.GetTx(ctx, &txtypes.GetTxRequest{Hash: sent.TxResponse.TxHash})
		if err != nil {
			continue
		}
		fmt.Printf("go: gas %d, with a key %d; in block %d with code %d\n", gas, withKey, included.TxResponse.Height, included.TxResponse.Code)
		check(included.TxResponse.Code == 0, "the transaction failed")
		node.checkTx(ctx, bytes, included.TxResponse.Height, recipient)
		fmt.Printf("comet: %d blocks verified\n", node.checkChain(ctx, rpc))
		return
	}
	check(false, "the transaction is in no block")
}
