package tools

import (
	"encoding/base64"
	"fmt"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

const delegationTokensPurpose = "This tool helps to create, renew, expire, or describe delegation tokens."

func delegationTokensParser() *joptParser {
	return newJopt(
		joptOption{name: "bootstrap-server", arg: requiredArg, help: "REQUIRED: server(s) to use for bootstrapping."},
		joptOption{name: "command-config", arg: requiredArg, help: "REQUIRED: A property file containing configs to be passed to Admin Client. Token management operations are allowed in secure mode only. This config file is used to pass security related configs."},
		joptOption{name: "create", help: "Create a new delegation token. Use --renewer-principal option to pass renewer principals."},
		joptOption{name: "renew", help: "Renew delegation token. Use --renew-time-period option to set renew time period."},
		joptOption{name: "expire", help: "Expire delegation token. Use --expiry-time-period option to expire the token."},
		joptOption{name: "describe", help: "Describe delegation tokens for the given principals. Use --owner-principal to pass owner/renewer principals. " +
			"If --owner-principal option is not supplied, all the user-owned tokens and tokens where the user has Describe permissions will be returned."},
		joptOption{name: "owner-principal", arg: optionalArg, help: "owner is a Kafka principal. They should be in principalType:name format."},
		joptOption{name: "renewer-principal", arg: optionalArg, help: "renewer is a Kafka principal. They should be in principalType:name format."},
		joptOption{name: "max-life-time-period", arg: optionalArg, typ: "Long", help: "Max life period for the token in milliseconds. If the value is -1, then token max life time will default to the server side config value of (delegation.token.max.lifetime.ms)."},
		joptOption{name: "renew-time-period", arg: optionalArg, typ: "Long", help: "Renew time period in milliseconds. If the value is -1, then the renew time period will default to the server side config value of (delegation.token.expiry.time.ms)."},
		joptOption{name: "expiry-time-period", arg: optionalArg, typ: "Long", help: "Expiry time period in milliseconds. If the value is -1, then the token will get invalidated immediately."},
		joptOption{name: "hmac", arg: optionalArg, help: "HMAC of the delegation token"},
	)
}

// kafkaDelegationTokens is kafka-delegation-tokens.
func kafkaDelegationTokens(env Env, args []string) int {
	return endTool(env, delegationTokens(env, args))
}

func delegationTokens(env Env, args []string) error {
	set, err := delegationTokensParser().parse(args)
	if err != nil {
		return err
	}
	if err := set.helpOrVersion(env, args, delegationTokensPurpose); err != nil {
		return err
	}
	if err := checkDelegationTokens(set); err != nil {
		return err
	}
	client, err := clientOf(env, set, "adminclient-1")
	if err != nil {
		return err
	}
	defer client.close()
	switch {
	case set.has("create"):
		return client.createToken(env, set)
	case set.has("renew"):
		return client.renewToken(env, set)
	case set.has("expire"):
		return client.expireToken(env, set)
	}
	return client.describeTokens(env, set)
}

func checkDelegationTokens(set *joptSet) error {
	if err := set.require("bootstrap-server", "command-config"); err != nil {
		return err
	}
	actions := 0
	for _, action := range []string{"create", "renew", "expire", "describe"} {
		if set.has(action) {
			actions++
		}
	}
	if actions != 1 {
		return set.parser.usage("Command must include exactly one action: --create, --renew, --expire or --describe")
	}
	for _, row := range [][]string{{"create", "max-life-time-period"}, {"renew", "hmac", "renew-time-period"}, {"expire", "hmac", "expiry-time-period"}} {
		if set.has(row[0]) {
			if err := set.require(row[1:]...); err != nil {
				return err
			}
		}
	}
	for _, row := range [][]string{
		{"create", "hmac", "renew-time-period", "expiry-time-period"},
		{"renew", "renewer-principal", "max-life-time-period", "expiry-time-period", "owner-principal"},
		{"expire", "renewer-principal", "max-life-time-period", "renew-time-period", "owner-principal"},
		{"describe", "renewer-principal", "hmac", "renew-time-period", "expiry-time-period", "max-life-time-period"},
	} {
		if err := set.conflict(row[0], row[1:]...); err != nil {
			return err
		}
	}
	return nil
}

// A tokenPrincipal is a kind and a name.
type tokenPrincipal struct{ kind, name string }

func (p tokenPrincipal) String() string { return p.kind + ":" + p.name }

func tokenPrincipals(set *joptSet, option string) ([]tokenPrincipal, error) {
	var all []tokenPrincipal
	for _, text := range set.all(option) {
		kind, name, ok := strings.Cut(strings.TrimSpace(text), ":")
		if !ok {
			return nil, throw(illegalArgument, "expected a string in format principalType:principalName but got "+text)
		}
		all = append(all, tokenPrincipal{kind, name})
	}
	return all, nil
}

func principalList(all []tokenPrincipal) string {
	texts := make([]string, len(all))
	for i, p := range all {
		texts[i] = p.String()
	}
	return "[" + strings.Join(texts, ", ") + "]"
}

// tokenNumber is a number that the tool must have. What is no number counts as missing, as jopt has it for an option that
// may do without a value.
func tokenNumber(set *joptSet, option string) (int64, error) {
	n, ok, err := set.number(option)
	if err == nil && !ok {
		err = throw("java.lang.NullPointerException", `Cannot invoke "java.lang.Long.longValue()" because the return value of "joptsimple.OptionSet.valueOf(joptsimple.OptionSpec)" is null`)
	}
	return n, err
}

// A delegationToken is what is printed of one.
type delegationToken struct {
	id               string
	hmac             []byte
	owner, requester tokenPrincipal
	renewers         []tokenPrincipal
	issued           int64
	expires, ends    int64
}

func printTokens(env Env, tokens ...delegationToken) {
	line := func(cells ...any) {
		fmt.Fprintf(env.Stdout, "\n%-15s %-30s %-15s %-15s %-25s %-15s %-15s %-15s\n", cells...)
	}
	when := func(ms int64) string { return time.UnixMilli(ms).Format("2006-01-02T15:04") }
	fmt.Fprintf(env.Stdout, "%-15s %-30s %-15s %-15s %-25s %-15s %-15s %-15s\n", "TOKENID", "HMAC", "OWNER", "REQUESTER", "RENEWERS", "ISSUEDATE", "EXPIRYDATE", "MAXDATE")
	for _, t := range tokens {
		line(t.id, base64.StdEncoding.EncodeToString(t.hmac), t.owner, t.requester, principalList(t.renewers), when(t.issued), when(t.expires), when(t.ends))
	}
}

func (a *admin) createToken(env Env, set *joptSet) error {
	renewers, err := tokenPrincipals(set, "renewer-principal")
	if err != nil {
		return err
	}
	life, err := tokenNumber(set, "max-life-time-period")
	if err != nil {
		return err
	}
	fmt.Fprintf(env.Stdout, "Calling create token operation with renewers :%s , max-life-time-period :%d\n", principalList(renewers), life)
	owners, err := tokenPrincipals(set, "owner-principal")
	if err != nil {
		return err
	}
	req := kmsg.NewPtrCreateDelegationTokenRequest()
	req.MaxLifetimeMillis = life
	if len(owners) > 0 {
		req.OwnerPrincipalType, req.OwnerPrincipalName = &owners[0].kind, &owners[0].name
	}
	for _, r := range renewers {
		renewer := kmsg.NewCreateDelegationTokenRequestRenewer()
		renewer.PrincipalType, renewer.PrincipalName = r.kind, r.name
		req.Renewers = append(req.Renewers, renewer)
	}
	resp, err := call[*kmsg.CreateDelegationTokenResponse](a, "createDelegationToken", req)
	if err == nil {
		err = brokerErrorOrNil(resp.ErrorCode, nil)
	}
	if err != nil {
		return executionException(err)
	}
	fmt.Fprintf(env.Stdout, "Created delegation token with tokenId : %s\n\n", resp.TokenID)
	printTokens(env, delegationToken{resp.TokenID, resp.HMAC, tokenPrincipal{resp.PrincipalType, resp.PrincipalName},
		tokenPrincipal{resp.TokenRequesterPrincipalType, resp.TokenRequesterPrincipalName}, renewers, resp.IssueTimestamp, resp.ExpiryTimestamp, resp.MaxTimestamp})
	return nil
}

// tokenHMAC reads --hmac, with the complaints of Java's decoder.
func tokenHMAC(text string) ([]byte, error) {
	hmac, err := base64.StdEncoding.DecodeString(text)
	if err == nil {
		return hmac, nil
	}
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
	body := strings.TrimRight(text, "=")
	bad := strings.IndexFunc(body, func(c rune) bool { return !strings.ContainsRune(alphabet, c) })
	switch {
	case len(text) == 1:
		return nil, throw(illegalArgument, "Input byte[] should at least have 2 bytes for base64 bytes")
	case bad >= 0:
		return nil, throw(illegalArgument, fmt.Sprintf("Illegal base64 character %x", body[bad]))
	case len(body) == len(text) && len(body)%4 > 1:
		return base64.RawStdEncoding.DecodeString(text) // Java does without the padding
	case len(body)%4 == 1:
		return nil, throw(illegalArgument, "Last unit does not have enough valid bits")
	}
	return nil, throw(illegalArgument, "Input byte array has wrong 4-byte ending unit")
}

func (a *admin) renewToken(env Env, set *joptSet) error {
	text, _, err := set.text("hmac")
	if err != nil {
		return err
	}
	period, err := tokenNumber(set, "renew-time-period")
	if err != nil {
		return err
	}
	fmt.Fprintf(env.Stdout, "Calling renew token operation with hmac :%s , renew-time-period :%d\n", text, period)
	hmac, err := tokenHMAC(text)
	if err != nil {
		return err
	}
	req := kmsg.NewPtrRenewDelegationTokenRequest()
	req.HMAC, req.RenewTimeMillis = hmac, period
	resp, err := call[*kmsg.RenewDelegationTokenResponse](a, "renewDelegationToken", req)
	if err == nil {
		err = brokerErrorOrNil(resp.ErrorCode, nil)
	}
	if err != nil {
		return executionException(err)
	}
	fmt.Fprintf(env.Stdout, "Completed renew operation. New expiry date : %s\n", time.UnixMilli(resp.ExpiryTimestamp).Format("2006-01-02T15:04"))
	return nil
}

func (a *admin) expireToken(env Env, set *joptSet) error {
	text, _, err := set.text("hmac")
	if err != nil {
		return err
	}
	period, err := tokenNumber(set, "expiry-time-period")
	if err != nil {
		return err
	}
	fmt.Fprintf(env.Stdout, "Calling expire token operation with hmac :%s , expire-time-period :%d\n", text, period)
	hmac, err := tokenHMAC(text)
	if err != nil {
		return err
	}
	req := kmsg.NewPtrExpireDelegationTokenRequest()
	req.HMAC, req.ExpiryPeriodMillis = hmac, period
	resp, err := call[*kmsg.ExpireDelegationTokenResponse](a, "expireDelegationToken", req)
	if err == nil {
		err = brokerErrorOrNil(resp.ErrorCode, nil)
	}
	if err != nil {
		return executionException(err)
	}
	fmt.Fprintf(env.Stdout, "Completed expire operation. New expiry date : %s\n", time.UnixMilli(resp.ExpiryTimestamp).Format("2006-01-02T15:04"))
	return nil
}

func (a *admin) describeTokens(env Env, set *joptSet) error {
	owners, err := tokenPrincipals(set, "owner-principal")
	if err != nil {
		return err
	}
	req := kmsg.NewPtrDescribeDelegationTokenRequest()
	req.Owners = []kmsg.DescribeDelegationTokenRequestOwner{} // none: not nil, which is all
	if len(owners) == 0 {
		fmt.Fprintln(env.Stdout, "Calling describe token operation for current user.")
	} else {
		fmt.Fprintf(env.Stdout, "Calling describe token operation for owners: %s\n", principalList(owners))
	}
	for _, o := range owners {
		owner := kmsg.NewDescribeDelegationTokenRequestOwner()
		owner.PrincipalType, owner.PrincipalName = o.kind, o.name
		req.Owners = append(req.Owners, owner)
	}
	resp, err := call[*kmsg.DescribeDelegationTokenResponse](a, "describeDelegationToken", req)
	if err == nil {
		err = brokerErrorOrNil(resp.ErrorCode, nil)
	}
	if err != nil {
		return executionException(err)
	}
	var tokens []delegationToken
	for _, d := range resp.TokenDetails {
		t := delegationToken{d.TokenID, d.HMAC, tokenPrincipal{d.PrincipalType, d.PrincipalName}, tokenPrincipal{d.TokenRequesterPrincipalType, d.TokenRequesterPrincipalName},
			nil, d.IssueTimestamp, d.ExpiryTimestamp, d.MaxTimestamp}
		for _, r := range d.Renewers {
			t.renewers = append(t.renewers, tokenPrincipal{r.PrincipalType, r.PrincipalName})
		}
		tokens = append(tokens, t)
	}
	fmt.Fprintf(env.Stdout, "Total number of tokens : %d\n", len(tokens))
	printTokens(env, tokens...)
	return nil
}
