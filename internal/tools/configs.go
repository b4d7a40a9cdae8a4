package tools

import (
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/quire-log/quire/internal/config"
)

const configsPurpose = "This tool helps to manipulate and describe entity config for a topic, client, user, broker, ip, client-metrics or group"

// The types of entities, as the command line names them.
const (
	topicEntity   = "topics"
	clientEntity  = "clients"
	userEntity    = "users"
	brokerEntity  = "brokers"
	loggerEntity  = "broker-loggers"
	ipEntity      = "ips"
	metricsEntity = "client-metrics"
	groupEntity   = "groups"
)

// entityTypes are all of them, as complaints list them.
var entityTypes = []string{topicEntity, clientEntity, userEntity, brokerEntity, ipEntity, metricsEntity, groupEntity, loggerEntity}

// An entityFlag names an entity of a type, or its default, shorter than --entity-type and --entity-name do.
type entityFlag struct {
	name, typ string
	isDefault bool
}

var entityFlags = []entityFlag{
	{"topic", topicEntity, false}, {"client", clientEntity, false}, {"user", userEntity, false}, {"broker", brokerEntity, false},
	{"broker-logger", loggerEntity, false}, {"client-metrics", metricsEntity, false}, {"ip", ipEntity, false}, {"group", groupEntity, false},
	{"client-defaults", clientEntity, true}, {"user-defaults", userEntity, true}, {"broker-defaults", brokerEntity, true}, {"ip-defaults", ipEntity, true},
}

// The keys that are no options of the tables: quotas and credentials.
var (
	quotaKeys = []string{"consumer_byte_rate", "controller_mutation_rate", "producer_byte_rate", "request_percentage"}
	scramKeys = []string{"SCRAM-SHA-256", "SCRAM-SHA-512"}
	ipKeys    = []string{"connection_creation_rate"}
)

// throttleKeys are a broker's, and in no table: they are never read from a file.
var throttleKeys = []string{"follower.replication.throttled.rate", "leader.replication.throttled.rate", "replica.alter.log.dirs.io.max.bytes.per.second"}

// keysOf lists the keys of a type that may change at run time.
func keysOf(typ string) []string {
	var table []config.Option
	switch typ {
	case topicEntity:
		table = config.Topic()
	case metricsEntity:
		table = config.ClientMetrics()
	case groupEntity:
		table = config.Group()
	case userEntity:
		return slices.Sorted(slices.Values(append(slices.Clone(scramKeys), quotaKeys...)))
	case clientEntity:
		return quotaKeys
	case ipEntity:
		return ipKeys
	case brokerEntity:
		keys := slices.Clone(throttleKeys)
		for _, o := range config.Broker() {
			if o.Mode != config.ReadOnly && !o.Internal && !o.Own && !slices.Contains(throttleKeys, o.Key) {
				keys = append(keys, o.Key)
			}
		}
		slices.Sort(keys)
		return keys
	}
	var keys []string
	for _, o := range table {
		if !o.Internal && !o.Own {
			keys = append(keys, o.Key)
		}
	}
	return keys
}

// configsParser is the command line of kafka-configs.
func configsParser() *joptParser {
	var keys strings.Builder
	for _, typ := range []string{topicEntity, brokerEntity, userEntity, clientEntity, ipEntity, metricsEntity, groupEntity} {
		fmt.Fprintf(&keys, "For entity-type '%s': \n", typ)
		for _, key := range keysOf(typ) {
			keys.WriteString("\t" + key + "\n")
		}
	}
	return newJopt(
		joptOption{name: "bootstrap-server", arg: requiredArg, what: "server to connect to", help: "The Kafka servers to connect to."},
		joptOption{name: "bootstrap-controller", arg: requiredArg, what: "controller to connect to", help: "The Kafka controllers to connect to."},
		joptOption{name: "command-config", arg: requiredArg, what: "command config property file", help: "Property file containing configs to be passed to Admin Client. " +
			"This is used only with --bootstrap-server option for describing and altering broker configs."},
		joptOption{name: "alter", help: "Alter the configuration for the entity."},
		joptOption{name: "describe", help: "List configs for the given entity."},
		joptOption{name: "all", help: "List all configs for the given entity, including static configs if available."},
		joptOption{name: "entity-type", arg: requiredArg, help: "Type of entity (topics/clients/users/brokers/broker-loggers/ips/client-metrics/groups)"},
		joptOption{name: "entity-name", arg: requiredArg, help: "Name of entity (topic name/client id/user principal name/broker id/ip/client metrics/group id)"},
		joptOption{name: "entity-default", help: "Default entity name for clients/users/brokers/ips (applies to corresponding entity type)"},
		joptOption{name: "add-config", arg: requiredArg, help: "Key Value pairs of configs to add. Square brackets can be used to group values which contain commas: 'k1=v1,k2=[v1,v2,v2],k3=v3'. " +
			"The following is a list of valid configurations: " + keys.String() +
			"Entity types 'users' and 'clients' may be specified together to update config for clients of a specific user."},
		joptOption{name: "add-config-file", arg: requiredArg, help: "Path to a properties file with configs to add. See add-config for a list of valid configurations."},
		joptOption{name: "delete-config", arg: requiredArg, help: "config keys to remove 'k1,k2'"},
		joptOption{name: "topic", arg: requiredArg, help: "The topic's name."},
		joptOption{name: "client", arg: requiredArg, help: "The client's ID."},
		joptOption{name: "client-defaults", help: "The config defaults for all clients."},
		joptOption{name: "user", arg: requiredArg, help: "The user's principal name."},
		joptOption{name: "user-defaults", help: "The config defaults for all users."},
		joptOption{name: "broker", arg: requiredArg, help: "The broker's ID."},
		joptOption{name: "broker-defaults", help: "The config defaults for all brokers."},
		joptOption{name: "broker-logger", arg: requiredArg, help: "The broker's ID for its logger config."},
		joptOption{name: "ip", arg: requiredArg, help: "The IP address."},
		joptOption{name: "ip-defaults", help: "The config defaults for all IPs."},
		joptOption{name: "group", arg: requiredArg, help: "The group's ID."},
		joptOption{name: "client-metrics", arg: requiredArg, help: "The client metrics config resource name."},
	)
}

// configsCommand is one call of kafka-configs, with its client. An entity's name is empty when its type's default is meant.
type configsCommand struct {
	*admin
	env          Env
	set          *joptSet
	types, names []string
}

// kafkaConfigs is kafka-configs.
func kafkaConfigs(env Env, args []string) int {
	err := configs(env, args)
	if err == nil {
		return 0
	}
	if code, ended := endOfParsing(env, err); ended {
		return code
	}
	e := asJava(err)
	if saysItself(e) {
		fmt.Fprintln(env.Stderr, e.text())
	} else {
		fmt.Fprintf(env.Stderr, "Error while executing config command with args '%s'\n%s\n", strings.Join(args, " "), e.trace())
	}
	return 1
}

// saysItself reports whether a complaint is the user's to mend, and told in one line.
func saysItself(e *javaError) bool {
	switch strings.TrimPrefix(e.class, kafkaErrors) {
	case illegalArgument, numberFormat, "InvalidConfigurationException", "InvalidTopicException", "UnsupportedVersionException":
		return true
	}
	return strings.HasPrefix(e.class, "joptsimple.")
}

func configs(env Env, args []string) error {
	set, err := configsParser().parse(args)
	if err != nil {
		return err
	}
	if err := set.helpOrVersion(env, args, configsPurpose); err != nil {
		return err
	}
	c := &configsCommand{env: env, set: set}
	if err := c.check(); err != nil {
		return err
	}
	props, err := set.properties("command-config")
	if err != nil {
		return err
	}
	servers, _, err := set.text("bootstrap-server")
	if err != nil {
		return err
	}
	controllers, _, err := set.text("bootstrap-controller")
	if err != nil {
		return err
	}
	if c.admin, err = newAdminOf(env, props, servers, controllers); err != nil {
		return err
	}
	defer c.close()
	if !set.has("alter") {
		return c.describe()
	}
	if len(c.types) != len(c.names) {
		return throw(illegalArgument, "An entity name must be specified for every entity type")
	}
	return c.alter()
}

// readEntities finds out what is spoken of: by the general options in their order, then by the short ones.
func (c *configsCommand) readEntities() error {
	c.types = append(c.types, c.set.all("entity-type")...)
	named := c.set.all("entity-name")
	for _, option := range c.set.order {
		switch option {
		case "entity-name":
			c.names, named = append(c.names, named[0]), named[1:]
		case "entity-default":
			c.names = append(c.names, "")
		}
	}
	for _, flag := range entityFlags {
		if !c.set.has(flag.name) {
			continue
		}
		c.types = append(c.types, flag.typ)
		name := ""
		if !flag.isDefault {
			var err error
			if name, _, err = c.set.text(flag.name); err != nil {
				return err
			}
		}
		c.names = append(c.names, name)
	}
	return nil
}

// is reports whether entities of any of these types are spoken of.
func (c *configsCommand) is(types ...string) bool {
	return slices.ContainsFunc(types, func(t string) bool { return slices.Contains(c.types, t) })
}

// check looks at the command line as a whole.
func (c *configsCommand) check() error {
	set := c.set
	if set.has("alter") == set.has("describe") {
		return set.parser.usage("Command must include exactly one action: --describe, --alter")
	}
	if err := set.conflict("describe", "alter", "add-config", "delete-config"); err != nil {
		return err
	}
	if err := c.readEntities(); err != nil {
		return err
	}
	if err := c.checkTypes(); err != nil {
		return err
	}
	hasName, hasDefault := false, false
	for _, name := range c.names {
		hasName, hasDefault = hasName || name != "", hasDefault || name == ""
	}
	if !set.has("bootstrap-server") && !set.has("bootstrap-controller") {
		return throw(illegalArgument, "Either --bootstrap-server or --bootstrap-controller must be specified.")
	}
	if set.has("bootstrap-server") && set.has("bootstrap-controller") {
		return throw(illegalArgument, "Only one of --bootstrap-server or --bootstrap-controller can be specified")
	}
	if err := c.checkNames(hasName); err != nil {
		return err
	}
	list, defaultable := strings.Join(c.types, ","), c.is(userEntity, clientEntity, brokerEntity, ipEntity)
	if set.has("describe") {
		switch {
		case set.has("entity-default") && !defaultable:
			return throw(illegalArgument, "--entity-default must not be specified with --describe of "+list)
		case c.is(loggerEntity) && !hasName:
			return throw(illegalArgument, "An entity name must be specified with --describe of "+list)
		}
		return nil
	}
	switch {
	case defaultable && !hasName && !hasDefault:
		return throw(illegalArgument, "An entity-name or default entity must be specified with --alter of users, clients, brokers or ips")
	case !defaultable && !hasName:
		return throw(illegalArgument, "An entity name must be specified with --alter of "+list)
	case set.has("add-config") && set.has("add-config-file"):
		return throw(illegalArgument, "Only one of --add-config or --add-config-file must be specified")
	case !set.has("add-config") && !set.has("add-config-file") && !set.has("delete-config"):
		return throw(illegalArgument, "At least one of --add-config, --add-config-file, or --delete-config must be specified with --alter")
	}
	return nil
}

func (c *configsCommand) checkTypes() error {
	var twice []string
	for i, typ := range c.types {
		if slices.Contains(c.types[:i], typ) {
			twice = append(twice, typ)
		}
	}
	if twice != nil {
		return throw(illegalArgument, "Duplicate entity type(s) specified: "+strings.Join(twice, ","))
	}
	for _, typ := range c.types {
		if !slices.Contains(entityTypes, typ) {
			return throw(illegalArgument, fmt.Sprintf("Invalid entity type %s, the entity type must be one of %s with a --bootstrap-server or --bootstrap-controller argument",
				typ, strings.Join(entityTypes, ", ")))
		}
	}
	switch {
	case len(c.types) == 0:
		return throw(illegalArgument, "At least one entity type must be specified")
	case len(c.types) > 1 && (len(c.types) != 2 || !slices.Contains(c.types, userEntity) || !slices.Contains(c.types, clientEntity)):
		return throw(illegalArgument, "Only 'users' and 'clients' entity types may be specified together")
	}
	general := c.set.has("entity-name") || c.set.has("entity-type") || c.set.has("entity-default")
	if general && slices.ContainsFunc(entityFlags, func(f entityFlag) bool { return c.set.has(f.name) }) {
		return throw(illegalArgument, "--entity-{type,name,default} should not be used in conjunction with specific entity flags")
	}
	return nil
}

// checkNames refuses names that no broker and no address can have.
func (c *configsCommand) checkNames(hasName bool) error {
	check := func(complaint string, valid func(string) bool, options ...string) error {
		for _, option := range options {
			if !c.set.has(option) {
				continue
			}
			name, _, err := c.set.text(option)
			if err != nil {
				return err
			}
			if !valid(name) {
				return throw(illegalArgument, fmt.Sprintf("The entity name for %s must be %s, but it is: %s", c.types[0], complaint, name))
			}
		}
		return nil
	}
	switch {
	case hasName && c.is(brokerEntity, loggerEntity):
		return check("a valid integer broker id", func(name string) bool { _, err := javaInt(name, 32); return err == nil }, "entity-name", "broker", "broker-logger")
	case hasName && c.is(ipEntity):
		return check("a valid IP or resolvable host", func(name string) bool { return net.ParseIP(name) != nil || resolves(name) }, "entity-name", "ip")
	}
	return nil
}

func resolves(host string) bool {
	_, err := net.LookupHost(host)
	return err == nil
}
