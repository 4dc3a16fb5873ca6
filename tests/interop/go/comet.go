package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/cometbft/cometbft/light/provider/http"
	rpcclient "github.com/cometbft/cometbft/rpc/client"
	rpchttp "github.com/cometbft/cometbft/rpc/client/http"
	ctypes "github.com/cometbft/cometbft/rpc/core/types"
	comettypes "github.com/cometbft/cometbft/types"
)

// check ends the program with the reason unless the condition holds.
func check(holds bool, format string, values ...any) {
	if !holds {
		fmt.Fprintf(os.Stderr, format+"\n", values...)
		os.Exit(1)
	}
}

// comet is CometBFT's own client of the node's RPC, over HTTP and WebSocket.
type comet struct {
	*rpchttp.HTTP
	chainID string
	blocks  <-chan ctypes.ResultEvent
	txs     <-chan ctypes.ResultEvent
}

// connectComet subscribes to blocks and transactions.
func connectComet(ctx context.Context, rpc, chainID string) *comet {
	client := must(rpchttp.New(rpc, "/websocket"))
	if err := client.Start(); err != nil {
		check(false, "the WebSocket: %v", err)
	}
	blocks := must(client.Subscribe(ctx, "interop", comettypes.EventQueryNewBlock.String(), 100))
	txs := must(client.Subscribe(ctx, "interop", comettypes.EventQueryTx.String(), 100))
	return &comet{client, chainID, blocks, txs}
}

// checkChain reads every block of the chain with every method of the client, and verifies hashes and signatures with CometBFT's types.
func (client *comet) checkChain(ctx context.Context, rpc string) int64 {
	status := must(client.Status(ctx))
	check(status.NodeInfo.Network == client.chainID, "the network is %s", status.NodeInfo.Network)
	must(client.Health(ctx))
	must(client.NetInfo(ctx))
	must(client.ABCIInfo(ctx))
	check(must(client.Genesis(ctx)).Genesis.ChainID == client.chainID, "another genesis")
	newest := must(client.Block(ctx, nil))
	var before *ctypes.ResultBlock
	var results []byte
	for height := int64(1); height <= newest.Block.Height; height++ {
		block := must(client.Block(ctx, &height))
		check(block.Block.ValidateBasic() == nil, "block %d: %v", height, block.Block.ValidateBasic())
		check(bytes.Equal(block.Block.Hash(), block.BlockID.Hash), "block %d: its header has another hash", height)
		signed := must(client.Commit(ctx, &height))
		check(signed.SignedHeader.ValidateBasic(client.chainID) == nil, "commit %d: %v", height, signed.SignedHeader.ValidateBasic(client.chainID))
		validators := must(client.Validators(ctx, &height, nil, nil))
		set := comettypes.NewValidatorSet(validators.Validators)
		check(bytes.Equal(set.Hash(), signed.ValidatorsHash), "commit %d: other validators", height)
		invalid := set.VerifyCommit(client.chainID, signed.Commit.BlockID, height, signed.Commit)
		check(invalid == nil, "commit %d: %v", height, invalid)
		if before != nil {
			check(block.Block.LastBlockID.Equals(before.BlockID), "block %d does not follow its predecessor", height)
			check(block.Block.Time.After(before.Block.Time), "block %d is not later than its predecessor", height)
			check(bytes.Equal(block.Block.LastResultsHash, results), "block %d: other results", height)
		}
		executed := must(client.BlockResults(ctx, &height))
		results, before = comettypes.NewResults(executed.TxsResults).Hash(), block
		must(client.Header(ctx, &height))
		must(client.ConsensusParams(ctx, &height))
	}
	byHash := must(client.BlockByHash(ctx, newest.BlockID.Hash))
	check(bytes.Equal(byHash.Block.Hash(), newest.BlockID.Hash), "another block by its hash")
	must(client.HeaderByHash(ctx, newest.BlockID.Hash))
	check(len(must(client.BlockchainInfo(ctx, 1, 2)).BlockMetas) == 2, "the metadata of two blocks")
	page, perPage := 1, 10
	found := must(client.BlockSearch(ctx, "block.height >= 2", &page, &perPage, "asc"))
	check(int64(found.TotalCount) >= newest.Block.Height-1, "%d blocks found", found.TotalCount)
	reply := must(client.ABCIQuery(ctx, "/cosmos.auth.v1beta1.Query/Bech32Prefix", nil))
	check(reply.Response.Code == 0 && len(reply.Response.Value) > 2, "no prefix")
	refused := must(client.BroadcastTxSync(ctx, []byte("nothing")))
	check(refused.Code == 2 && refused.Codespace == "sdk", "a broken transaction is refused with %s %d", refused.Codespace, refused.Code)
	// What a light client reads and verifies.
	block := must(http.NewWithClient(client.chainID, client).LightBlock(ctx, newest.Block.Height))
	check(block.ValidateBasic(client.chainID) == nil, "the light block: %v", block.ValidateBasic(client.chainID))
	must(http.New(client.chainID, rpc))
	return newest.Block.Height
}

// checkTx finds a transaction by hash and by its events, and waits for it and its block in the subscriptions.
func (client *comet) checkTx(ctx context.Context, tx []byte, height int64, recipient string) {
	hash := comettypes.Tx(tx).Hash()
	found := must(client.Tx(ctx, hash, false))
	check(found.Height == height && bytes.Equal(found.Tx, tx), "the transaction is in block %d", found.Height)
	block := must(client.Block(ctx, &height))
	proven := must(client.Tx(ctx, hash, true))
	invalid := proven.Proof.Validate(block.Block.DataHash)
	check(invalid == nil && bytes.Equal(proven.Proof.Data, tx), "the proof of the transaction: %v", invalid)
	page, perPage := 1, 10
	query := fmt.Sprintf("tx.height = %d AND transfer.amount EXISTS AND transfer.recipient = '%s'", height, recipient)
	searched := must(client.TxSearch(ctx, query, false, &page, &perPage, "desc"))
	searchedProof := must(client.TxSearch(ctx, query, true, &page, &perPage, "desc")).Txs[0].Proof
	check(searchedProof.Validate(block.Block.DataHash) == nil, "the proof of the transaction that was searched")
	check(searched.TotalCount == 1 && bytes.Equal(searched.Txs[0].Hash, hash), "%d transactions found", searched.TotalCount)
	_, again := client.BroadcastTxAsync(ctx, tx)
	check(again != nil && strings.Contains(again.Error(), "tx already exists in cache"), "the same bytes again: %v", again)
	must(client.BroadcastTxAsync(ctx, []byte("nothing else")))
	deadline := time.After(20 * time.Second)
	for {
		select {
		case event := <-client.txs:
			data := event.Data.(comettypes.EventDataTx)
			if bytes.Equal(comettypes.Tx(data.Tx).Hash(), hash) {
				check(data.Height == height, "the subscription has it in block %d", data.Height)
				client.awaitBlock(height, deadline)
				return
			}
		case <-deadline:
			check(false, "the subscription has no transaction")
		}
	}
}

func (client *comet) awaitBlock(height int64, deadline <-chan time.Time) {
	for {
		select {
		case event := <-client.blocks:
			data := event.Data.(comettypes.EventDataNewBlock)
			check(bytes.Equal(data.Block.Hash(), data.BlockID.Hash), "the subscription has another block %d", data.Block.Height)
			if data.Block.Height == height {
				return
			}
		case <-deadline:
			check(false, "the subscription has no block %d", height)
		}
	}
}

var _ rpcclient.RemoteClient = (*comet)(nil)
