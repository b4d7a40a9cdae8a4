package tools

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"unicode"

	"github.com/twmb/franz-go/pkg/kmsg"
)

const aclsPurpose = "This tool helps to manage acls on kafka."

// aclOperations are the protocol's, by number, as the command line has them.
var aclOperations = []string{"Unknown", "Any", "All", "Read", "Write", "Create", "Delete", "Alter", "Describe", "ClusterAction", "DescribeConfigs", "AlterConfigs", "IdempotentWrite", "CreateTokens", "DescribeTokens", "TwoPhaseCommit"}

func aclsParser() *joptParser {
	const address = "A list of host/port pairs to use for establishing the connection to the Kafka cluster. This list should be in the form host1:port1,host2:port2,... This config is required for acl management using admin client API."
	const principal = "principal is in principalType:name format. "
	const supported = "Note that principalType must be supported by the Authorizer being used. "
	host := func(verb, other string) string {
		return "Host from which principals listed in --" + verb + "-principal will " + other
	}
	return newJopt(
		joptOption{name: "bootstrap-server", arg: requiredArg, what: "server to connect to", help: address},
		joptOption{name: "bootstrap-controller", arg: requiredArg, what: "controller to connect to", help: address},
		joptOption{name: "command-config", arg: optionalArg, what: "command-config", help: "A property file containing configs to be passed to Admin Client."},
		joptOption{name: "topic", arg: requiredArg, what: "topic", help: "topic to which ACLs should be added or removed. A value of '*' indicates ACL should apply to all topics."},
		joptOption{name: "cluster", help: "Add/Remove cluster ACLs."},
		joptOption{name: "group", arg: requiredArg, what: "group", help: "Consumer Group to which the ACLs should be added or removed. A value of '*' indicates the ACLs should apply to all groups."},
		joptOption{name: "transactional-id", arg: requiredArg, what: "transactional-id", help: "The transactionalId to which ACLs should be added or removed. A value of '*' indicates the ACLs should apply to all transactionalIds."},
		joptOption{name: "idempotent", help: "Enable idempotence for the producer. This should be used in combination with the --producer option. Note that idempotence is enabled automatically if the producer is authorized to a particular transactional-id."},
		joptOption{name: "delegation-token", arg: requiredArg, what: "delegation-token", help: "Delegation token to which ACLs should be added or removed. A value of '*' indicates ACL should apply to all tokens."},
		joptOption{name: "resource-pattern-type", arg: requiredArg, typ: "ANY|MATCH|LITERAL|PREFIXED", def: "LITERAL", help: "The type of the resource pattern or pattern filter. When adding acls, this should be a specific pattern type, e.g. 'literal' or 'prefixed'. " +
			"When listing or removing acls, a specific pattern type can be used to list or remove acls from specific resource patterns, or use the filter values of 'any' or 'match', where 'any' will match any pattern type, but will match the resource name exactly, " +
			"where as 'match' will perform pattern matching to list or remove all acls that affect the supplied resource(s). WARNING: 'match', when used in combination with the '--remove' switch, should be used with care."},
		joptOption{name: "add", help: "Indicates you are trying to add ACLs."},
		joptOption{name: "remove", help: "Indicates you are trying to remove ACLs."},
		joptOption{name: "list", help: "List ACLs for the specified resource, use --topic <topic> or --group <group> or --cluster to specify a resource."},
		joptOption{name: "operation", arg: requiredArg, def: "All", help: "Operation that is being allowed or denied. Valid operation names are: \n\t" + strings.Join(aclOperations[2:], "\n\t") + "\n"},
		joptOption{name: "allow-principal", arg: requiredArg, what: "allow-principal", help: principal + supported + "For example, User:'*' is the wild card indicating all users."},
		joptOption{name: "deny-principal", arg: requiredArg, what: "deny-principal", help: principal + "By default anyone not added through --allow-principal is denied access. You only need to use this option as negation to already allowed set. " + supported +
			"For example if you wanted to allow access to all users in the system but not test-user you can define an ACL that allows access to User:'*' and specify --deny-principal=User:test@EXAMPLE.COM. AND PLEASE REMEMBER DENY RULES TAKES PRECEDENCE OVER ALLOW RULES."},
		joptOption{name: "principal", arg: optionalArg, what: "principal", help: "List ACLs for the specified principal. " + principal + supported + "Multiple --principal option can be passed."},
		joptOption{name: "allow-host", arg: requiredArg, what: "allow-host", help: host("allow", "have access. If you have specified --allow-principal then the default for this option will be set to '*' which allows access from all hosts.")},
		joptOption{name: "deny-host", arg: requiredArg, what: "deny-host", help: host("deny", "be denied access. If you have specified --deny-principal then the default for this option will be set to '*' which denies access from all hosts.")},
		joptOption{name: "producer", help: "Convenience option to add/remove ACLs for producer role. This will generate ACLs that allows WRITE,DESCRIBE and CREATE on topic."},
		joptOption{name: "consumer", help: "Convenience option to add/remove ACLs for consumer role. This will generate ACLs that allows READ,DESCRIBE on topic and READ on group."},
		joptOption{name: "force", help: "Assume Yes to all queries and do not prompt."},
		joptOption{name: "user-principal", arg: requiredArg, what: "user-principal", help: "Specifies a user principal as a resource in relation with the operation. For instance one could grant CreateTokens or DescribeTokens permission on a given user principal."},
	)
}

// kafkaAcls is kafka-acls.
func kafkaAcls(env Env, args []string) int {
	set, err := parseAcls(env, args)
	if err == nil {
		err = acls(env, set)
	}
	if err == nil {
		return 0
	}
	if code, ended := endOfParsing(env, err); ended {
		return code
	}
	e := asJava(err)
	fmt.Fprintf(env.Stdout, "Error while executing ACL command: %s\n%s\n\n", e.text(), e.trace())
	return 1
}

func parseAcls(env Env, args []string) (*joptSet, error) {
	parser := aclsParser()
	set, err := parser.parse(args)
	if err != nil {
		return nil, parser.usage("%s", err.Error())
	}
	if err := set.helpOrVersion(env, args, aclsPurpose); err != nil {
		return nil, err
	}
	switch servers, controllers := set.has("bootstrap-server"), set.has("bootstrap-controller"); {
	case servers && controllers:
		return nil, parser.usage("Only one of --bootstrap-server or --bootstrap-controller must be specified")
	case !servers && !controllers:
		return nil, parser.usage("One of --bootstrap-server or --bootstrap-controller must be specified")
	}
	actions := 0
	for _, action := range []string{"list", "add", "remove"} {
		if set.has(action) {
			actions++
		}
	}
	if actions != 1 {
		return nil, parser.usage("Command must include exactly one action: --list, --add, --remove. ")
	}
	for _, row := range [][]string{
		{"list", "producer", "consumer", "allow-host", "allow-principal", "deny-host", "deny-principal"},
		{"producer", "operation", "deny-principal", "deny-host"},
		{"consumer", "operation", "deny-principal", "deny-host"},
	} {
		if err := set.conflict(row[0], row[1:]...); err != nil {
			return nil, err
		}
	}
	switch {
	case set.has("principal") && !set.has("list"):
		return nil, parser.usage("The --principal option is only available if --list is set")
	case set.has("producer") && !set.has("topic"):
		return nil, parser.usage("With --producer you must specify a --topic")
	case set.has("idempotent") && !set.has("producer"):
		return nil, parser.usage("The --idempotent option is only available if --producer is set")
	case set.has("consumer") && (!set.has("topic") || !set.has("group") || !set.has("producer") && (set.has("cluster") || set.has("transactional-id"))):
		return nil, parser.usage("With --consumer you must specify a --topic and a --group and no --cluster or --transactional-id option should be specified.")
	}
	return set, nil
}

// An aclPattern says which resources a rule is for, an aclEntry what it is.
type aclPattern struct {
	typ     kmsg.ACLResourceType
	name    string
	pattern kmsg.ACLResourcePatternType
}

func (p aclPattern) String() string {
	return fmt.Sprintf("ResourcePattern(resourceType=%s, name=%s, patternType=%s)", p.typ, p.name, p.pattern)
}

type aclEntry struct {
	principal, host string
	operation       kmsg.ACLOperation
	permission      kmsg.ACLPermissionType
}

func (e aclEntry) String() string {
	return fmt.Sprintf("(principal=%s, host=%s, operation=%s, permissionType=%s)", e.principal, e.host, aclOperationName(e.operation), e.permission)
}

// aclOperationName is an operation as Java's enum has it: CLUSTER_ACTION.
func aclOperationName(o kmsg.ACLOperation) string {
	if o < 0 || int(o) >= len(aclOperations) {
		return "UNKNOWN"
	}
	var name strings.Builder
	for i, c := range aclOperations[o] {
		if i > 0 && unicode.IsUpper(c) {
			name.WriteByte('_')
		}
		name.WriteRune(unicode.ToUpper(c))
	}
	return name.String()
}

// aclRules are rules by resource, in order.
type aclRules struct {
	patterns []aclPattern
	entries  map[aclPattern][]aclEntry
}

func (r *aclRules) add(p aclPattern, entries ...aclEntry) {
	if r.entries == nil {
		r.entries = map[aclPattern][]aclEntry{}
	}
	if _, ok := r.entries[p]; !ok {
		r.patterns = append(r.patterns, p)
		r.entries[p] = nil
	}
	for _, e := range entries {
		if !slices.Contains(r.entries[p], e) {
			r.entries[p] = append(r.entries[p], e)
		}
	}
}

// aclText is entries as the tool prints them, each on its line.
func aclText(entries []aclEntry) string {
	lines := make([]string, len(entries))
	for i, e := range entries {
		lines[i] = "\t" + e.String()
	}
	return strings.Join(lines, "\n")
}

// aclsCommand is one call of the tool, with its client.
type aclsCommand struct {
	*admin
	env     Env
	set     *joptSet
	pattern kmsg.ACLResourcePatternType
}

func acls(env Env, set *joptSet) error {
	c := &aclsCommand{env: env, set: set}
	if set.has("command-config") && len(set.all("command-config")) == 0 {
		fmt.Fprintln(env.Stdout, "Did not load any properties since the property file is not specified")
	}
	client, err := clientOfEither(env, set, "adminclient-1")
	if err != nil {
		return err
	}
	defer client.close()
	c.admin = client
	text, _, err := set.text("resource-pattern-type")
	if err != nil {
		return err
	}
	types := []string{"", "ANY", "MATCH", "LITERAL", "PREFIXED"}
	i := slices.IndexFunc(types, func(t string) bool { return t != "" && strings.EqualFold(t, text) })
	if i < 0 {
		return &joptError{"OptionArgumentConversionException", fmt.Sprintf("Cannot parse argument '%s' of option resource-pattern-type", text)}
	}
	c.pattern = kmsg.ACLResourcePatternType(i)
	switch {
	case set.has("add"):
		return c.add()
	case set.has("remove"):
		return c.remove()
	}
	return c.list()
}

// resources are those that the command line names.
func (c *aclsCommand) resources(must bool) ([]aclPattern, error) {
	var found []aclPattern
	add := func(typ kmsg.ACLResourceType, option string) {
		for _, name := range c.set.all(option) {
			p := aclPattern{typ, strings.TrimSpace(name), c.pattern}
			if !slices.Contains(found, p) {
				found = append(found, p)
			}
		}
	}
	add(kmsg.ACLResourceTypeTopic, "topic")
	if c.pattern == kmsg.ACLResourcePatternTypeLiteral && (c.set.has("cluster") || c.set.has("idempotent")) {
		found = append(found, clusterPattern)
	}
	add(kmsg.ACLResourceTypeGroup, "group")
	add(kmsg.ACLResourceTypeTransactionalId, "transactional-id")
	add(kmsg.ACLResourceTypeDelegationToken, "delegation-token")
	add(kmsg.ACLResourceTypeUser, "user-principal")
	if len(found) == 0 && must {
		return nil, c.set.parser.usage("You must provide at least one resource: --topic <topic> or --cluster or --group <group> or --delegation-token <Delegation Token ID>")
	}
	return found, nil
}

var clusterPattern = aclPattern{kmsg.ACLResourceTypeCluster, "kafka-cluster", kmsg.ACLResourcePatternTypeLiteral}

// principals are the values of an option.
func (c *aclsCommand) principals(option string) ([]string, error) {
	var all []string
	for _, text := range c.set.all(option) {
		text = strings.TrimSpace(text)
		if kind, _, ok := strings.Cut(text, ":"); !ok || kind == "" {
			return nil, throw(illegalArgument, "expected a string in format principalType:principalName but got "+text)
		}
		if !slices.Contains(all, text) {
			all = append(all, text)
		}
	}
	return all, nil
}

// rulesFor are what the command line allows and denies, for operations.
func (c *aclsCommand) rulesFor(operations ...kmsg.ACLOperation) ([]aclEntry, error) {
	var entries []aclEntry
	for _, kind := range []struct {
		verb       string
		permission kmsg.ACLPermissionType
	}{{"allow", kmsg.ACLPermissionTypeAllow}, {"deny", kmsg.ACLPermissionTypeDeny}} {
		principals, err := c.principals(kind.verb + "-principal")
		if err != nil {
			return nil, err
		}
		hosts := c.set.all(kind.verb + "-host")
		if len(hosts) == 0 {
			hosts = []string{"*"}
		}
		for _, principal := range principals {
			for _, operation := range operations {
				for _, host := range hosts {
					entries = append(entries, aclEntry{principal, strings.TrimSpace(host), operation, kind.permission})
				}
			}
		}
	}
	return entries, nil
}

// operations are those of --operation. What there is not is unknown, and refused when it is to be added.
func (c *aclsCommand) operations() []kmsg.ACLOperation {
	words := c.set.all("operation")
	if len(words) == 0 {
		words = []string{"All"}
	}
	var all []kmsg.ACLOperation
	for _, word := range words {
		i := slices.IndexFunc(aclOperations, func(o string) bool {
			return strings.EqualFold(o, strings.ReplaceAll(strings.TrimSpace(word), "_", ""))
		})
		all = append(all, kmsg.ACLOperation(max(i, 0)))
	}
	return all
}

// rules are what the command line is about.
func (c *aclsCommand) rules() (*aclRules, error) {
	named, err := c.resources(true)
	if err != nil {
		return nil, err
	}
	rules := &aclRules{}
	add := func(typ kmsg.ACLResourceType, operations ...kmsg.ACLOperation) error {
		entries, err := c.rulesFor(operations...)
		for _, p := range named {
			if p.typ == typ {
				rules.add(p, entries...)
			}
		}
		return err
	}
	producer, consumer := c.set.has("producer"), c.set.has("consumer")
	if !producer && !consumer {
		for _, p := range named {
			if err := add(p.typ, c.operations()...); err != nil {
				return nil, err
			}
		}
	}
	if producer {
		err = errors.Join(add(kmsg.ACLResourceTypeTopic, kmsg.ACLOperationWrite, kmsg.ACLOperationDescribe, kmsg.ACLOperationCreate),
			add(kmsg.ACLResourceTypeTransactionalId, kmsg.ACLOperationWrite, kmsg.ACLOperationDescribe))
		if c.set.has("idempotent") {
			entries, e := c.rulesFor(kmsg.ACLOperationIdempotentWrite)
			err = errors.Join(err, e)
			rules.add(clusterPattern, entries...)
		}
	}
	if consumer {
		err = errors.Join(err, add(kmsg.ACLResourceTypeTopic, kmsg.ACLOperationRead, kmsg.ACLOperationDescribe), add(kmsg.ACLResourceTypeGroup, kmsg.ACLOperationRead))
	}
	if err != nil {
		return nil, asJava(err)
	}
	return rules, c.checkOperations(rules)
}

// aclSupported are the operations of each type of resource. All is one of each.
var aclSupported = map[kmsg.ACLResourceType][]kmsg.ACLOperation{
	kmsg.ACLResourceTypeTopic: {kmsg.ACLOperationRead, kmsg.ACLOperationWrite, kmsg.ACLOperationCreate, kmsg.ACLOperationDescribe, kmsg.ACLOperationDelete,
		kmsg.ACLOperationAlter, kmsg.ACLOperationDescribeConfigs, kmsg.ACLOperationAlterConfigs},
	kmsg.ACLResourceTypeGroup: {kmsg.ACLOperationRead, kmsg.ACLOperationDescribe, kmsg.ACLOperationDelete, kmsg.ACLOperationDescribeConfigs, kmsg.ACLOperationAlterConfigs},
	kmsg.ACLResourceTypeCluster: {kmsg.ACLOperationCreate, kmsg.ACLOperationClusterAction, kmsg.ACLOperationDescribeConfigs, kmsg.ACLOperationAlterConfigs,
		kmsg.ACLOperationIdempotentWrite, kmsg.ACLOperationAlter, kmsg.ACLOperationDescribe},
	kmsg.ACLResourceTypeTransactionalId: {kmsg.ACLOperationDescribe, kmsg.ACLOperationWrite, twoPhaseCommit},
	kmsg.ACLResourceTypeDelegationToken: {kmsg.ACLOperationDescribe},
	kmsg.ACLResourceTypeUser:            {kmsg.ACLOperationCreateTokens, kmsg.ACLOperationDescribeTokens},
}

// twoPhaseCommit is an operation that came with Kafka 4.
const twoPhaseCommit kmsg.ACLOperation = 15

func (c *aclsCommand) checkOperations(rules *aclRules) error {
	for _, p := range rules.patterns {
		valid := append(slices.Clone(aclSupported[p.typ]), kmsg.ACLOperationAll)
		for _, e := range rules.entries[p] {
			if !slices.Contains(valid, e.operation) {
				names := make([]string, len(valid))
				for i, o := range valid {
					names[i] = aclOperationName(o)
				}
				return c.set.parser.usage("ResourceType %s only supports operations [%s]", p.typ, strings.Join(names, ", "))
			}
		}
	}
	return nil
}

func (c *aclsCommand) add() error {
	if c.pattern != kmsg.ACLResourcePatternTypeLiteral && c.pattern != kmsg.ACLResourcePatternTypePrefixed {
		return c.set.parser.usage("A '--resource-pattern-type' value of '%s' is not valid when adding acls.", c.pattern)
	}
	rules, err := c.rules()
	if err != nil {
		return err
	}
	for _, p := range rules.patterns {
		if len(rules.entries[p]) == 0 {
			return c.set.parser.usage("You must specify one of: --allow-principal, --deny-principal when trying to add ACLs.")
		}
	}
	for _, p := range rules.patterns {
		there, err := c.describe([]aclPattern{p})
		if err != nil {
			return err
		}
		var fresh []aclEntry
		for _, e := range rules.entries[p] {
			if slices.Contains(there.entries[p], e) {
				fmt.Fprintf(c.env.Stdout, "Acl (pattern=%s, entry=%s) already exists.\n", p, e)
			} else {
				fresh = append(fresh, e)
			}
		}
		if len(fresh) == 0 {
			continue
		}
		fmt.Fprintf(c.env.Stdout, "Adding ACLs for resource `%s`: \n %s\n\n", p, aclText(fresh))
		req := kmsg.NewPtrCreateACLsRequest()
		for _, e := range fresh {
			creation := kmsg.NewCreateACLsRequestCreation()
			creation.ResourceType, creation.ResourceName, creation.ResourcePatternType = p.typ, p.name, p.pattern
			creation.Principal, creation.Host, creation.Operation, creation.PermissionType = e.principal, e.host, e.operation, e.permission
			req.Creations = append(req.Creations, creation)
		}
		resp, err := call[*kmsg.CreateACLsResponse](c.admin, "createAcls", req)
		if err != nil {
			return executionException(err)
		}
		for _, r := range resp.Results {
			if e := brokerError(r.ErrorCode, r.ErrorMessage); e != nil {
				return executionException(e)
			}
		}
	}
	return nil
}

// describe asks for the rules of resources, or all.
func (c *aclsCommand) describe(of []aclPattern) (*aclRules, error) {
	rules := &aclRules{}
	if of == nil {
		of = []aclPattern{{typ: kmsg.ACLResourceTypeAny, pattern: kmsg.ACLResourcePatternTypeAny}}
	}
	for _, p := range of {
		req := kmsg.NewPtrDescribeACLsRequest()
		req.ResourceType, req.ResourcePatternType = p.typ, p.pattern
		if p.typ != kmsg.ACLResourceTypeAny {
			req.ResourceName = &p.name
		}
		req.Operation, req.PermissionType = kmsg.ACLOperationAny, kmsg.ACLPermissionTypeAny
		resp, err := call[*kmsg.DescribeACLsResponse](c.admin, "describeAcls", req)
		if err != nil {
			return nil, executionException(err)
		}
		if e := brokerError(resp.ErrorCode, resp.ErrorMessage); e != nil {
			return nil, executionException(e)
		}
		for _, r := range resp.Resources {
			for _, a := range r.ACLs {
				rules.add(aclPattern{r.ResourceType, r.ResourceName, r.ResourcePatternType}, aclEntry{a.Principal, a.Host, a.Operation, a.PermissionType})
			}
		}
	}
	return rules, nil
}

func (c *aclsCommand) list() error {
	named, err := c.resources(false)
	if err != nil {
		return err
	}
	principals, err := c.principals("principal")
	if err != nil {
		return err
	}
	rules, err := c.describe(named)
	if err != nil {
		return err
	}
	show := func(wanted func(aclEntry) bool) {
		for _, p := range rules.patterns {
			entries := slices.DeleteFunc(slices.Clone(rules.entries[p]), func(e aclEntry) bool { return !wanted(e) })
			if len(entries) > 0 {
				fmt.Fprintf(c.env.Stdout, "Current ACLs for resource `%s`:\n%s\n\n", p, aclText(entries))
			}
		}
	}
	if len(principals) == 0 {
		show(func(aclEntry) bool { return true })
	}
	for _, principal := range principals {
		fmt.Fprintf(c.env.Stdout, "ACLs for principal `%s`\n", principal)
		show(func(e aclEntry) bool { return e.principal == principal })
	}
	return nil
}

func (c *aclsCommand) remove() error {
	rules, err := c.rules()
	if err != nil {
		return err
	}
	for _, p := range rules.patterns {
		entries := rules.entries[p]
		question := fmt.Sprintf("Are you sure you want to delete all ACLs for resource filter `%s`? (y/n)", p)
		if len(entries) > 0 {
			question = fmt.Sprintf("Are you sure you want to remove ACLs: \n %s\n from resource filter `%s`? (y/n)", aclText(entries), p)
		}
		sure, err := c.confirm(question)
		if err != nil {
			return err
		}
		if sure {
			if err := c.delete(p, entries); err != nil {
				return err
			}
		}
	}
	return nil
}

// confirm asks the user, who must sit at a terminal.
func (c *aclsCommand) confirm(question string) (bool, error) {
	if c.set.has("force") {
		return true, nil
	}
	fmt.Fprintln(c.env.Stdout, question)
	if f, ok := c.env.Stdin.(*os.File); !ok || !isTerminal(f) {
		return false, throw("java.lang.NullPointerException", `Cannot invoke "java.io.Console.readLine()" because the return value of "java.lang.System.console()" is null`)
	}
	line, err := bufio.NewReader(c.env.Stdin).ReadString('\n')
	if err != nil {
		return false, nil
	}
	return strings.EqualFold(strings.TrimSpace(line), "y"), nil
}

// delete takes rules away, or all of a resource.
func (c *aclsCommand) delete(p aclPattern, entries []aclEntry) error {
	req := kmsg.NewPtrDeleteACLsRequest()
	filter := func() kmsg.DeleteACLsRequestFilter {
		f := kmsg.NewDeleteACLsRequestFilter()
		f.ResourceType, f.ResourceName, f.ResourcePatternType = p.typ, &p.name, p.pattern
		f.Operation, f.PermissionType = kmsg.ACLOperationAny, kmsg.ACLPermissionTypeAny
		return f
	}
	for _, e := range entries {
		f := filter()
		f.Principal, f.Host, f.Operation, f.PermissionType = &e.principal, &e.host, e.operation, e.permission
		req.Filters = append(req.Filters, f)
	}
	if entries == nil {
		req.Filters = append(req.Filters, filter())
	}
	resp, err := call[*kmsg.DeleteACLsResponse](c.admin, "deleteAcls", req)
	if err != nil {
		return executionException(err)
	}
	for _, r := range resp.Results {
		if e := brokerError(r.ErrorCode, r.ErrorMessage); e != nil {
			return executionException(e)
		}
	}
	return nil
}
