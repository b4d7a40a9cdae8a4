package tools

import (
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"crypto/sha512"
	"fmt"
	"hash"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// A configChange is what --add-config and --delete-config ask for.
type configChange struct {
	set    map[string]string
	remove []string
}

// keys are those that are set, sorted.
func (ch *configChange) keys() []string { return slices.Sorted(maps.Keys(ch.set)) }

func (c *configsCommand) readChange() (*configChange, error) {
	ch := &configChange{set: map[string]string{}}
	path, ok, err := c.set.text("add-config-file")
	if err != nil {
		return nil, err
	}
	if ok {
		if ch.set, err = loadProperties(path); err != nil {
			return nil, err
		}
	}
	text, _, err := c.set.text("add-config")
	if err != nil {
		return nil, err
	}
	if c.set.has("add-config") {
		if err := parsePairs(ch.set, text); err != nil {
			return nil, err
		}
	}
	for _, list := range c.set.all("delete-config") {
		for key := range strings.SplitSeq(list, ",") {
			if key != "" {
				ch.remove = append(ch.remove, strings.TrimSpace(key))
			}
		}
	}
	return ch, nil
}

// parsePairs reads key=value pairs between commas. In square brackets neither a comma nor an equals sign divides; the
// brackets themselves are dropped.
func parsePairs(into map[string]string, text string) error {
	pairs := splitOutside(text, ',')
	for len(pairs) > 1 && pairs[len(pairs)-1] == "" { // as Java's split
		pairs = pairs[:len(pairs)-1]
	}
	if len(pairs) == 1 && pairs[0] == "" && text != "" {
		return nil
	}
	brackets := strings.NewReplacer("[", "", "]", "")
	for _, pair := range pairs {
		parts := splitOutside(pair, '=')
		if len(parts) != 2 {
			return throw(illegalArgument, `requirement failed: Invalid entity config: all configs to be added must be in the format "key=val" or  "key=[val1,val2]" to group values which contain commas.`)
		}
		into[strings.TrimSpace(parts[0])] = strings.TrimSpace(brackets.Replace(parts[1]))
	}
	return nil
}

// splitOutside cuts text at a separator that is not within brackets: of what follows it, no ] comes before a [.
func splitOutside(text string, separator byte) []string {
	var parts []string
	begin := 0
	for i := range len(text) {
		if text[i] != separator {
			continue
		}
		if next := strings.IndexAny(text[i+1:], "[]"); next < 0 || text[i+1+next] == '[' {
			parts = append(parts, text[begin:i])
			begin = i + 1
		}
	}
	return append(parts, text[begin:])
}

// alter changes the values of the first entity named, or quotas of a user and a client together.
func (c *configsCommand) alter() error {
	ch, err := c.readChange()
	if err != nil {
		return err
	}
	typ, name := c.types[0], c.names[0]
	switch typ {
	case userEntity, clientEntity:
		err = c.alterQuotasOrCredentials(ch)
	case ipEntity:
		var unknown []string
		for _, key := range append(ch.keys(), ch.remove...) {
			if !slices.Contains(ipKeys, key) {
				unknown = append(unknown, key)
			}
		}
		if unknown != nil {
			return throw(illegalArgument, "Only connection quota configs can be added for 'ips' using --bootstrap-server. Unexpected config names: "+strings.Join(unknown, ","))
		}
		err = c.alterQuotas(ch)
	default:
		if typ == loggerEntity {
			if err := c.checkLoggers(name, ch); err != nil {
				return err
			}
		}
		err = c.alterResource(typ, name, ch)
	}
	if err != nil {
		return err
	}
	if name == "" {
		fmt.Fprintf(c.env.Stdout, "Completed updating default config for %s in the cluster.\n", typ)
	} else {
		fmt.Fprintf(c.env.Stdout, "Completed updating config for %s %s.\n", singular(typ), name)
	}
	return nil
}

// checkLoggers refuses loggers that the broker does not have.
func (c *configsCommand) checkLoggers(broker string, ch *configChange) error {
	entries, err := c.resourceConfigs(loggerEntity, broker, false)
	if err != nil {
		return err
	}
	var unknown []string
	for _, name := range append(slices.Clone(ch.remove), ch.keys()...) {
		if !slices.ContainsFunc(entries, func(e kmsg.DescribeConfigsResponseResourceConfig) bool { return e.Name == name }) {
			unknown = append(unknown, name)
		}
	}
	if unknown != nil {
		return throw(kafkaErrors+"InvalidConfigurationException", "Invalid broker logger(s): "+strings.Join(unknown, ","))
	}
	return nil
}

func (c *configsCommand) alterResource(typ, name string, ch *configChange) error {
	r := kmsg.NewIncrementalAlterConfigsRequestResource()
	r.ResourceType, _ = entityResource(typ, name)
	r.ResourceName = name
	for _, key := range ch.remove {
		e := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		e.Name, e.Op, e.Value = key, kmsg.IncrementalAlterConfigOpDelete, new(string)
		r.Configs = append(r.Configs, e)
	}
	for _, key := range ch.keys() {
		value := ch.set[key]
		e := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		e.Name, e.Op, e.Value = key, kmsg.IncrementalAlterConfigOpSet, &value
		r.Configs = append(r.Configs, e)
	}
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	req.Resources = append(req.Resources, r)
	resp, err := call[*kmsg.IncrementalAlterConfigsResponse](c.admin, "incrementalAlterConfigs", req)
	if err != nil {
		return executionError(err)
	}
	for _, r := range resp.Resources {
		if e := brokerError(r.ErrorCode, r.ErrorMessage); e != nil {
			return executionError(e)
		}
	}
	return nil
}

// scramIterationsDefault is what a credential has whose iterations are not told.
const scramIterationsDefault = 4096

// alterQuotasOrCredentials changes a user's or client's quotas, or a user's credentials: never both at once.
func (c *configsCommand) alterQuotasOrCredentials(ch *configChange) error {
	var unknown, unknownRemoved []string
	quotas, scrams, scramsRemoved := false, []string(nil), []string(nil)
	sort := func(key string, scram, unknown *[]string) {
		switch {
		case slices.Contains(quotaKeys, key):
			quotas = true
		case slices.Contains(scramKeys, key):
			*scram = append(*scram, key)
		default:
			*unknown = append(*unknown, key)
		}
	}
	for _, key := range ch.keys() {
		sort(key, &scrams, &unknown)
	}
	for _, key := range ch.remove {
		sort(key, &scramsRemoved, &unknownRemoved)
	}
	refuse := func(allowed, verb, typ, collection string, names []string) error {
		return throw(illegalArgument, fmt.Sprintf("Only %s configs can be %s for '%s' using --bootstrap-server. Unexpected config names: %s(%s)",
			allowed, verb, typ, collection, strings.Join(names, ", ")))
	}
	if c.types[0] == clientEntity || len(c.types) == 2 {
		if unknown = append(unknown, scrams...); unknown != nil {
			return refuse("quota", "added", clientEntity, "Set", unknown)
		}
		if unknown = append(unknownRemoved, scramsRemoved...); unknown != nil {
			return refuse("quota", "deleted", clientEntity, "ArrayBuffer", unknown)
		}
	} else {
		switch {
		case unknown != nil:
			return refuse("quota and SCRAM credential", "added", userEntity, "Set", unknown)
		case unknownRemoved != nil:
			return refuse("quota and SCRAM credential", "deleted", userEntity, "ArrayBuffer", unknownRemoved)
		case scrams == nil && scramsRemoved == nil:
		case slices.Contains(c.names, ""):
			return throw(illegalArgument, "The use of --entity-default or --user-defaults is not allowed with User SCRAM Credentials using --bootstrap-server.")
		case quotas:
			return throw(illegalArgument, "Cannot alter both quota and SCRAM credential configs simultaneously for 'users' using --bootstrap-server.")
		}
	}
	if quotas {
		return c.alterQuotas(ch)
	}
	if len(c.names) != 1 {
		return throw("java.lang.IllegalStateException", fmt.Sprintf("Altering user SCRAM credentials should never occur for more zero or multiple users: List(%s)", strings.Join(c.names, ", ")))
	}
	return c.alterCredentials(ch, scrams, scramsRemoved)
}

// quotaEntityNames are the protocol's words for the types that have quotas.
var quotaEntityNames = map[string]string{userEntity: "user", clientEntity: "client-id", ipEntity: "ip"}

// alterQuotas changes quotas of an entity. One that is not set cannot be removed.
func (c *configsCommand) alterQuotas(ch *configChange) error {
	entries, err := c.quotas()
	if err != nil {
		return err
	}
	has := map[string]bool{}
	if len(entries) > 0 {
		for _, v := range entries[0].Values {
			has[v.Key] = true
		}
	}
	if unset := slices.DeleteFunc(slices.Clone(ch.remove), func(key string) bool { return has[key] }); len(unset) > 0 {
		return throw(kafkaErrors+"InvalidConfigurationException", "Invalid config(s): "+strings.Join(unset, ","))
	}
	entry := kmsg.NewAlterClientQuotasRequestEntry()
	for i, typ := range c.types {
		e := kmsg.NewAlterClientQuotasRequestEntryEntity()
		e.Type = quotaEntityNames[typ]
		if c.names[i] != "" {
			e.Name = &c.names[i]
		}
		entry.Entity = append(entry.Entity, e)
	}
	for _, key := range ch.keys() {
		op := kmsg.NewAlterClientQuotasRequestEntryOp()
		op.Key = key
		if op.Value, err = javaDouble(ch.set[key]); err != nil {
			return throw(illegalArgument, fmt.Sprintf("Cannot parse quota configuration value for %s: %s", key, ch.set[key]))
		}
		entry.Ops = append(entry.Ops, op)
	}
	for _, key := range ch.remove {
		op := kmsg.NewAlterClientQuotasRequestEntryOp()
		op.Key, op.Remove = key, true
		entry.Ops = append(entry.Ops, op)
	}
	req := kmsg.NewPtrAlterClientQuotasRequest()
	req.Entries = append(req.Entries, entry)
	resp, err := call[*kmsg.AlterClientQuotasResponse](c.admin, "alterClientQuotas", req)
	if err != nil {
		return executionError(err)
	}
	for _, e := range resp.Entries {
		if e := brokerError(e.ErrorCode, e.ErrorMessage); e != nil {
			return executionError(e)
		}
	}
	return nil
}

// javaDouble is Double.parseDouble but for hexadecimal numbers.
func javaDouble(text string) (float64, error) {
	text = strings.TrimSpace(text)
	switch strings.TrimLeft(text, "+-") {
	case "NaN":
		return math.NaN(), nil
	case "Infinity":
		if strings.HasPrefix(text, "-") {
			return math.Inf(-1), nil
		}
		return math.Inf(1), nil
	}
	if strings.ContainsAny(text, "_xXiInN") {
		return 0, strconv.ErrSyntax
	}
	if n := len(text); n > 1 && strings.ContainsRune("dDfF", rune(text[n-1])) {
		text = text[:n-1]
	}
	f, err := strconv.ParseFloat(text, 64)
	if math.IsInf(f, 0) {
		err = nil // out of range is infinite, as in Java
	}
	return f, err
}

// quotas asks for the quotas of the entities named, or of all of the types.
func (c *configsCommand) quotas() ([]kmsg.DescribeClientQuotasResponseEntry, error) {
	if err := c.brokersOnly(); err != nil {
		return nil, executionError(err)
	}
	req := kmsg.NewPtrDescribeClientQuotasRequest()
	req.Strict = true
	for i, typ := range c.types {
		component := kmsg.NewDescribeClientQuotasRequestComponent()
		component.EntityType = quotaEntityNames[typ]
		switch {
		case i >= len(c.names):
			component.MatchType = kmsg.QuotasMatchTypeAny
		case c.names[i] == "":
			component.MatchType = kmsg.QuotasMatchTypeDefault
		default:
			component.MatchType, component.Match = kmsg.QuotasMatchTypeExact, &c.names[i]
		}
		req.Components = append(req.Components, component)
	}
	resp, err := call[*kmsg.DescribeClientQuotasResponse](c.admin, "describeClientQuotas", req)
	if err != nil {
		return nil, executionError(err)
	}
	if e := brokerError(resp.ErrorCode, resp.ErrorMessage); e != nil {
		return nil, executionError(e)
	}
	javaMapOrder(resp.Entries, quotaEntityHash, len(resp.Entries))
	return resp.Entries, nil
}

// quotaEntityHash is ClientQuotaEntity.hashCode.
func quotaEntityHash(e kmsg.DescribeClientQuotasResponseEntry) uint32 {
	h := uint32(31)
	for _, part := range e.Entity {
		name := uint32(0)
		if part.Name != nil {
			name = javaHash(*part.Name)
		}
		h += javaHash(part.Type) ^ name
	}
	return h
}

// describeQuotas prints a line for each entity that has quotas.
func (c *configsCommand) describeQuotas() error {
	entries, err := c.quotas()
	if err != nil {
		return err
	}
	for _, entry := range entries {
		var who []string
		for _, kind := range [][2]string{{"user", "user-principal"}, {"client-id", "client-id"}, {"ip", "ip"}} {
			for _, e := range entry.Entity {
				switch {
				case e.Type != kind[0]:
				case e.Name == nil:
					who = append(who, "the default "+kind[1])
				default:
					who = append(who, fmt.Sprintf("%s '%s'", kind[1], *e.Name))
				}
			}
		}
		javaMapOrder(entry.Values, func(v kmsg.DescribeClientQuotasResponseEntryValue) uint32 { return javaHash(v.Key) }, len(entry.Values))
		values := make([]string, len(entry.Values))
		for i, v := range entry.Values {
			values[i] = v.Key + "=" + javaFloat(v.Value, 64)
		}
		fmt.Fprintf(c.env.Stdout, "Quota configs for %s are %s\n", strings.Join(who, ", "), strings.Join(values, ", "))
	}
	return nil
}

// scramMechanism is the protocol's number of a mechanism, and its hash.
func scramMechanism(name string) (int8, func() hash.Hash) {
	if name == scramKeys[0] {
		return 1, sha256.New
	}
	return 2, sha512.New
}

var credentialPattern = regexp.MustCompile(`^(?:iterations=(-?[0-9]*),)?password=(.*)$`)

// alterCredentials changes a user's SCRAM credentials. The password itself is not sent: only what follows from it.
func (c *configsCommand) alterCredentials(ch *configChange, set, remove []string) error {
	user := c.names[0]
	req := kmsg.NewPtrAlterUserSCRAMCredentialsRequest()
	for _, mechanism := range remove {
		d := kmsg.NewAlterUserSCRAMCredentialsRequestDeletion()
		d.Name = user
		d.Mechanism, _ = scramMechanism(mechanism)
		req.Deletions = append(req.Deletions, d)
	}
	for _, mechanism := range set {
		m := credentialPattern.FindStringSubmatch(ch.set[mechanism])
		if m == nil {
			return throw(illegalArgument, fmt.Sprintf("Invalid credential property %s=%s", strings.ReplaceAll(mechanism, "-", "_"), ch.set[mechanism]))
		}
		iterations := int64(scramIterationsDefault)
		if strings.HasPrefix(ch.set[mechanism], "iterations=") && m[1] != "-1" {
			var err error
			if iterations, err = javaInt(m[1], 32); err != nil {
				return err
			}
		}
		if iterations < scramIterationsMin {
			return throw(illegalArgument, fmt.Sprintf("Iterations %d is less than the minimum %d required for %s", iterations, scramIterationsMin, mechanism))
		}
		u := kmsg.NewAlterUserSCRAMCredentialsRequestUpsertion()
		u.Name, u.Iterations, u.Salt = user, int32(iterations), make([]byte, scramSaltSize)
		rand.Read(u.Salt) // never fails
		var newHash func() hash.Hash
		u.Mechanism, newHash = scramMechanism(mechanism)
		var err error
		if u.SaltedPassword, err = pbkdf2.Key(newHash, m[2], u.Salt, int(iterations), newHash().Size()); err != nil {
			return fmt.Errorf("salting the password of %s: %w", user, err)
		}
		req.Upsertions = append(req.Upsertions, u)
	}
	if err := c.brokersOnly(); err != nil {
		return executionError(err)
	}
	resp, err := call[*kmsg.AlterUserSCRAMCredentialsResponse](c.admin, "alterUserScramCredentials", req)
	if err != nil {
		return executionError(err)
	}
	for _, r := range resp.Results {
		if e := brokerError(r.ErrorCode, r.ErrorMessage); e != nil {
			return executionError(e)
		}
	}
	return nil
}

// describeCredentials prints a line for each user named, or each there is, that has credentials.
func (c *configsCommand) describeCredentials() error {
	if err := c.brokersOnly(); err != nil {
		return executionError(err)
	}
	req := kmsg.NewPtrDescribeUserSCRAMCredentialsRequest()
	for _, name := range c.names {
		u := kmsg.NewDescribeUserSCRAMCredentialsRequestUser()
		u.Name = name
		req.Users = append(req.Users, u)
	}
	resp, err := call[*kmsg.DescribeUserSCRAMCredentialsResponse](c.admin, "describeUserScramCredentials", req)
	if err != nil {
		return executionError(err)
	}
	if e := brokerError(resp.ErrorCode, resp.ErrorMessage); e != nil {
		return executionError(e)
	}
	for _, r := range resp.Results {
		if r.ErrorCode == resourceNotFound {
			continue
		}
		if e := brokerError(r.ErrorCode, r.ErrorMessage); e != nil {
			fmt.Fprintf(c.env.Stdout, "Error retrieving SCRAM credential configs for user-principal '%s': ExecutionException: %s\n", r.User, e)
			continue
		}
		infos := make([]string, len(r.CredentialInfos))
		for i, info := range r.CredentialInfos {
			mechanism := "UNKNOWN"
			if n := int(info.Mechanism); n >= 1 && n <= len(scramKeys) {
				mechanism = scramKeys[n-1]
			}
			infos[i] = fmt.Sprintf("%s=iterations=%d", mechanism, info.Iterations)
		}
		fmt.Fprintf(c.env.Stdout, "SCRAM credential configs for user-principal '%s' are %s\n", r.User, strings.Join(infos, ", "))
	}
	return nil
}

// resourceNotFound answers for a user without credentials.
const resourceNotFound = 91
