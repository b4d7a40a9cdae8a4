package config

import (
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
)

// whole is what makes a node of nothing: both roles, one listener on the loopback, files in ./data, and internal topics that one broker can hold.
// node.id is not among it: a directory that is already formatted says who it is, and a new one gets 1.
var whole = map[string]string{
	"process.roles":                                    "broker,controller",
	"controller.listener.names":                        "CONTROLLER",
	"listeners":                                        "PLAINTEXT://127.0.0.1:9092",
	"log.dirs":                                         "data",
	"offsets.topic.replication.factor":                 "1",
	"transaction.state.log.replication.factor":         "1",
	"transaction.state.log.min.isr":                    "1",
	"share.coordinator.state.topic.replication.factor": "1",
	"share.coordinator.state.topic.min.isr":            "1",
}

// Complete returns static with what it leaves out filled in, so that no key at all makes a whole node. node.id and broker.id say the same,
// once either is there, as in Kafka. A file that names listeners or directories keeps its own; the rest holds for every file, since Quire
// is a cluster of one.
func Complete(static map[string]string) map[string]string {
	full := maps.Clone(whole)
	if static["log.dir"] != "" {
		delete(full, "log.dirs")
	}
	maps.Copy(full, static)
	node, broker := full["node.id"], full["broker.id"]
	switch {
	case node == "" && broker != "":
		full["node.id"] = broker
	case node != "" && broker == "":
		full["broker.id"] = node
	}
	return full
}

// A ListenerAddress is one of listeners or advertised.listeners.
type ListenerAddress struct {
	Name     string // upper case, such as PLAINTEXT
	Host     string // "": every interface
	Port     uint16
	Protocol string // by listener.security.protocol.map
}

// String is the form that the properties have.
func (a ListenerAddress) String() string {
	return a.Name + "://" + net.JoinHostPort(a.Host, strconv.Itoa(int(a.Port)))
}

// Listeners reads a list of NAME://host:port by the protocol map of static.
func Listeners(static map[string]string, key string) ([]ListenerAddress, error) {
	o, ok := Lookup(Broker(), key)
	if !ok {
		return nil, fmt.Errorf("config: no option %s", key)
	}
	protocols, err := protocolMap(Layers{Static: static})
	if err != nil {
		return nil, err
	}
	v := BrokerValue(o, Layers{Static: static})
	var all []ListenerAddress
	for _, item := range v.Items() {
		name, address, ok := strings.Cut(item, "://")
		host, port, err := net.SplitHostPort(address)
		n, portErr := strconv.ParseUint(port, 10, 16)
		if !ok || name == "" || err != nil || portErr != nil {
			return nil, &InvalidError{key, item, "Unable to parse " + item + " to a broker endpoint"}
		}
		a := ListenerAddress{Name: strings.ToUpper(name), Host: host, Port: uint16(n)}
		if a.Protocol, ok = protocols[a.Name]; !ok {
			return nil, &InvalidError{key, item, "No security protocol defined for listener " + a.Name}
		}
		for _, b := range all {
			if a.Name == b.Name {
				return nil, &InvalidError{key, v.Text, "Each listener must have a different name, " + key + ": " + v.Text}
			}
			if key == "listeners" && a.Port == b.Port && a.Port != 0 && a.Host == b.Host {
				return nil, &InvalidError{key, v.Text, "Each listener must have a different port, " + key + ": " + v.Text}
			}
		}
		all = append(all, a)
	}
	return all, nil
}

// protocolMap reads listener.security.protocol.map. As in Kafka, names of the controller's listeners that a default map lacks speak PLAINTEXT.
func protocolMap(l Layers) (map[string]string, error) {
	v := l.Of("listener.security.protocol.map")
	protocols := map[string]string{}
	for _, item := range splitList(v.Text) {
		name, protocol, ok := strings.Cut(item, ":")
		name, protocol = strings.ToUpper(trim(name)), strings.ToUpper(trim(protocol))
		if !ok || !slices.Contains([]string{"PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"}, protocol) {
			return nil, &InvalidError{v.Option.Key, item, "No enum constant org.apache.kafka.common.security.auth.SecurityProtocol." + protocol +
				" in listener.security.protocol.map: " + v.Text}
		}
		protocols[name] = protocol
	}
	if v.Source == Default {
		for _, name := range l.Of("controller.listener.names").Items() {
			if _, ok := protocols[strings.ToUpper(name)]; !ok {
				protocols[strings.ToUpper(name)] = "PLAINTEXT"
			}
		}
	}
	return protocols, nil
}

// CheckStatic checks a broker's static values: unknown keys as warnings that name the nearest known one, impossible values and Kafka's cross checks
// as an error naming key, value and rule. static is as the user wrote it, not completed.
func CheckStatic(static map[string]string) (warnings []string, err error) {
	var inert []string
	for _, key := range slices.Sorted(maps.Keys(static)) {
		o, ok := BrokerOption(key)
		if !ok {
			if w := unknown(key); w != "" {
				warnings = append(warnings, w)
			}
			continue
		}
		if err := o.Validate(static[key]); err != nil {
			return warnings, err
		}
		if o.Inert {
			inert = append(inert, key)
		}
	}
	if len(inert) > 0 {
		warnings = append(warnings, "accepted without effect in this version: "+strings.Join(inert, ", "))
	}
	for _, check := range crossChecks {
		if err := check(static, Layers{Static: Complete(static)}); err != nil {
			return warnings, err
		}
	}
	return warnings, nil
}

// unknown is the warning about a key of no table, "" for those of plug-ins.
func unknown(key string) string {
	for _, prefix := range []string{"rsm.config.", "rlmm.config.", "config.providers."} {
		if strings.HasPrefix(key, prefix) {
			return ""
		}
	}
	switch o, ok := Lookup(Topic(), key); {
	case strings.HasPrefix(key, "zookeeper."):
		return key + ": unknown, since Kafka 4 has no ZooKeeper"
	case ok && len(o.Broker) > 0:
		return fmt.Sprintf("%s: unknown here, it is an option of topics; the broker's is %s", key, o.Broker[0])
	}
	if near := Nearest(Broker(), key); near != "" {
		return fmt.Sprintf("%s: unknown; did you mean %s?", key, near)
	}
	return key + ": unknown"
}

// Nearest returns the known key most like an unknown one, "" if none is like it.
func Nearest(table []Option, key string) string {
	// A third of the key may be wrong: more, and the guess would puzzle rather than help.
	best, least := "", len(key)/3+1
	for i := range table {
		if d := distance(key, table[i].Key, least); d < least {
			best, least = table[i].Key, d
		}
	}
	return best
}

// distance counts the insertions, deletions, changes and swaps of neighbours that turn a into b; limit or more is not told apart.
func distance(a, b string, limit int) int {
	if d := len(a) - len(b); d >= limit || -d >= limit {
		return limit
	}
	before, above, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range above {
		above[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		least := i
		for j := 1; j <= len(b); j++ {
			change := 1
			if a[i-1] == b[j-1] {
				change = 0
			}
			row[j] = min(above[j]+1, row[j-1]+1, above[j-1]+change)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
			least = min(least, row[j])
		}
		if least >= limit {
			return limit
		}
		before, above, row = above, row, before
	}
	return min(above[len(b)], limit)
}

// crossChecks are the rules over several keys. static is what the user wrote, l what it comes to.
var crossChecks = []func(static map[string]string, l Layers) error{
	checkIdentity, checkQuorum, checkListeners, checkTimes, checkCleaner, checkReplication, checkGuards,
}

func refuse(v Value, rule string) error {
	return &InvalidError{v.Option.Key, v.Text, fmt.Sprintf("Invalid value %s for configuration %s: %s", v.Text, v.Option.Key, rule)}
}

func checkIdentity(static map[string]string, l Layers) error {
	if node, broker := l.Of("node.id"), l.Of("broker.id"); node.Text != broker.Text && !node.Null {
		return refuse(broker, "You must set `node.id` to the same value as `broker.id`, which is "+node.Text+" here.")
	}
	roles := l.Of("process.roles")
	for _, role := range []string{"broker", "controller"} {
		if !slices.Contains(roles.Items(), role) {
			return refuse(roles, "this version of Quire is a cluster of one node, which has to be broker and controller")
		}
	}
	return nil
}

func checkQuorum(static map[string]string, l Layers) error {
	voters := l.Of("controller.quorum.voters")
	items := voters.Items()
	if len(items) == 0 {
		return nil
	}
	node := l.Of("node.id")
	var ids []string
	member := node.Null // then the directory says who this node is, and whoever reads it asks again
	for _, item := range items {
		voter, complaint := parseVoter(item)
		if complaint != "" {
			return refuse(voters, complaint)
		}
		ids = append(ids, strconv.Itoa(int(voter)))
		member = member || strconv.Itoa(int(voter)) == node.Text
	}
	if !member {
		return refuse(voters, fmt.Sprintf("If process.roles contains the 'controller' role, the node id %s must be included in the set of voters controller.quorum.voters=Set(%s)",
			node.Text, strings.Join(ids, ", ")))
	}
	if len(items) > 1 {
		return refuse(voters, "this version of Quire is a cluster of one node, and cannot share its quorum with others")
	}
	return nil
}

func checkListeners(static map[string]string, l Layers) error {
	listeners, err := Listeners(l.Static, "listeners")
	if err != nil {
		return err
	}
	advertised, err := Listeners(l.Static, "advertised.listeners")
	if err != nil {
		return err
	}
	controllers := l.Of("controller.listener.names")
	isController := func(name string) bool {
		return slices.ContainsFunc(controllers.Items(), func(c string) bool { return strings.EqualFold(c, name) })
	}
	var names []string
	brokers, served := 0, 0
	for _, a := range listeners {
		names = append(names, a.Name)
		if isController(a.Name) {
			served++
		} else {
			brokers++
		}
		// Served without TLS such a listener would let everybody listen whom the user meant to keep out.
		if a.Protocol != "PLAINTEXT" && a.Protocol != "SASL_PLAINTEXT" {
			return refuse(l.Of("listeners"), "listener "+a.Name+" asks for "+a.Protocol+", but this version of Quire has no TLS: it speaks PLAINTEXT and SASL_PLAINTEXT")
		}
	}
	if brokers == 0 {
		return refuse(l.Of("listeners"), "There must be at least one broker listener. Perhaps all listeners appear in controller.listener.names?")
	}
	if _, named := static["controller.listener.names"]; named && served == 0 {
		return refuse(controllers, "controller.listener.names must contain at least one value appearing in the 'listeners' configuration when running the KRaft controller role")
	}
	public := l.Of("advertised.listeners")
	clients := brokers
	if len(advertised) > 0 {
		clients = 0
	}
	for _, a := range advertised {
		switch {
		case a.Host == "0.0.0.0" || a.Host == "::":
			return refuse(public, "advertised.listeners cannot use the nonroutable meta-address 0.0.0.0. Use a routable IP address.")
		case !slices.Contains(names, a.Name):
			return refuse(public, fmt.Sprintf("advertised.listeners listener names must be equal to or a subset of the ones defined in listeners. Found %s. "+
				"The valid options based on the current configuration are %s", a.Name, strings.Join(names, ",")))
		case !isController(a.Name):
			clients++
		}
	}
	if clients == 0 {
		return refuse(public, "There must be at least one broker advertised listener. Perhaps all listeners appear in controller.listener.names?")
	}
	_, byName := static["inter.broker.listener.name"]
	_, byProtocol := static["security.inter.broker.protocol"]
	if byName && byProtocol {
		return refuse(l.Of("inter.broker.listener.name"), "Only one of inter.broker.listener.name and security.inter.broker.protocol should be set.")
	}
	if between := l.Of("inter.broker.listener.name"); byName {
		name := strings.ToUpper(between.Text)
		known := slices.Contains(names, name)
		if len(advertised) > 0 {
			known = slices.ContainsFunc(advertised, func(a ListenerAddress) bool { return a.Name == name })
		}
		if !known || isController(name) {
			return refuse(between, "inter.broker.listener.name must be a listener name defined in advertised.listeners, and none of controller.listener.names")
		}
	}
	return nil
}

func checkTimes(static map[string]string, l Layers) error {
	o, _ := Lookup(Topic(), "retention.ms")
	// 0 in any unit would delete every record as soon as it is written.
	if twin, unit, ok := supplier(o, l); ok {
		if v := BrokerValue(twin, l); v.Int64()*unit == 0 || unit == 1 && v.Int64() < -1 {
			return refuse(v, "log.retention.ms must be unlimited (-1) or, greater than or equal to 1")
		}
	}
	return nil
}

func checkCleaner(static map[string]string, l Layers) error {
	buffer, threads := l.Of("log.cleaner.dedupe.buffer.size"), l.Of("log.cleaner.threads")
	if n := threads.Int64(); n > 0 && buffer.Int64()/n <= 1<<20 {
		return &InvalidError{buffer.Option.Key, buffer.Text, "requirement failed: log.cleaner.dedupe.buffer.size must be at least 1MB per cleaner thread."}
	}
	return nil
}

func checkReplication(static map[string]string, l Layers) error {
	wait := l.Of("replica.fetch.wait.max.ms")
	if socket := l.Of("replica.socket.timeout.ms"); wait.Int64() > socket.Int64() {
		return refuse(socket, "replica.socket.timeout.ms should always be at least replica.fetch.wait.max.ms to prevent unnecessary socket timeouts")
	}
	if lag := l.Of("replica.lag.time.max.ms"); wait.Int64() > lag.Int64() {
		return refuse(wait, "replica.fetch.wait.max.ms should always be less than or equal to replica.lag.time.max.ms to prevent frequent changes in ISR")
	}
	return nil
}

// checkGuards refuses what would leave a door open that the user believes shut.
func checkGuards(static map[string]string, l Layers) error {
	if v := l.Of("authorizer.class.name"); v.Text != "" {
		return refuse(v, "this version of Quire has no authorizer, and would let everybody do everything")
	}
	return nil
}
