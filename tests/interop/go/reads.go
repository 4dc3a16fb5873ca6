package main

import (
	"context"
	"strings"

	"github.com/cosmos/cosmos-sdk/codec/types"
	sdk "github.com/cosmos/cosmos-sdk/types"
	authtypes "github.com/cosmos/cosmos-sdk/x/auth/types"
	banktypes "github.com/cosmos/cosmos-sdk/x/bank/types"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// refused checks the status and the text of a query that a node refuses.
func refused(err error, code codes.Code, text string) {
	found := status.Convert(err)
	check(found.Code() == code && strings.Contains(found.Message(), text), "refused with %s: %s", found.Code(), found.Message())
}

// checkReads asks what the node's command line asks beside transactions: accounts by name and by number, and what can be sent.
func checkReads(ctx context.Context, connection *grpc.ClientConn, registry types.InterfaceRegistry, sender sdk.AccAddress, account sdk.AccountI, denom string) {
	accounts, bank := authtypes.NewQueryClient(connection), banktypes.NewQueryClient(connection)
	module := must(accounts.ModuleAccountByName(ctx, &authtypes.QueryModuleAccountByNameRequest{Name: authtypes.FeeCollectorName}))
	var found sdk.AccountI
	if err := registry.UnpackAny(module.Account, &found); err != nil {
		check(false, "the module account: %v", err)
	}
	named, isModule := found.(sdk.ModuleAccountI)
	check(isModule, "the fee collector is no module account")
	check(named.GetName() == authtypes.FeeCollectorName, "the module account is %s", named.GetName())
	check(named.GetAddress().Equals(authtypes.NewModuleAddress(authtypes.FeeCollectorName)), "the module account has the address %s", named.GetAddress())
	burner := must(accounts.ModuleAccountByName(ctx, &authtypes.QueryModuleAccountByNameRequest{Name: "td"}))
	if err := registry.UnpackAny(burner.Account, &found); err != nil {
		check(false, "the module account: %v", err)
	}
	check(found.(sdk.ModuleAccountI).HasPermission(authtypes.Burner), "td may not burn")
	byAddress := must(accounts.Account(ctx, &authtypes.QueryAccountRequest{Address: found.GetAddress().String()}))
	check(byAddress.Account.TypeUrl == burner.Account.TypeUrl, "by its address the account of td is a %s", byAddress.Account.TypeUrl)
	_, err := accounts.ModuleAccountByName(ctx, &authtypes.QueryModuleAccountByNameRequest{Name: "nobody"})
	refused(err, codes.NotFound, "account nobody not found")
	_, err = accounts.ModuleAccountByName(ctx, &authtypes.QueryModuleAccountByNameRequest{})
	refused(err, codes.InvalidArgument, "module name is empty")

	byNumber := must(accounts.AccountAddressByID(ctx, &authtypes.QueryAccountAddressByIDRequest{AccountId: account.GetAccountNumber()}))
	check(byNumber.AccountAddress == sender.String(), "account %d is %s", account.GetAccountNumber(), byNumber.AccountAddress)
	_, err = accounts.AccountAddressByID(ctx, &authtypes.QueryAccountAddressByIDRequest{AccountId: 1 << 40})
	refused(err, codes.NotFound, "account address not found with account number")
	_, err = accounts.AccountAddressByID(ctx, &authtypes.QueryAccountAddressByIDRequest{Id: 1})
	refused(err, codes.InvalidArgument, "requesting with id isn't supported")

	params := must(bank.Params(ctx, &banktypes.QueryParamsRequest{}))
	check(params.Params.DefaultSendEnabled && len(params.Params.SendEnabled) == 0, "the bank's parameters are %v", params.Params)
	all := must(bank.SendEnabled(ctx, &banktypes.QuerySendEnabledRequest{}))
	check(len(all.SendEnabled) == 0 && all.Pagination != nil, "entries of denominations: %v", all)
	one := must(bank.SendEnabled(ctx, &banktypes.QuerySendEnabledRequest{Denoms: []string{denom}}))
	check(len(one.SendEnabled) == 0 && one.Pagination == nil, "the entry of %s: %v", denom, one)
}
