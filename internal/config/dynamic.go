package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// CheckDynamic checks the values that a broker (own: by its id; else the cluster default) would have stored, as Kafka's broker does before it
// asks the controller: what may change at run time, types and ranges, and what the change would make of this node. now is what holds today.
func CheckDynamic(stored map[string]string, own bool, now Layers) error {
	var fixed, unprefixed, perBroker []string
	for key := range stored {
		base, prefixed := Base(key)
		if o, ok := Lookup(Broker(), key); ok {
			switch o.Mode {
			case ReadOnly:
				fixed = append(fixed, key)
			case PerListener:
				unprefixed = append(unprefixed, key)
			case PerBroker:
				perBroker = append(perBroker, key)
			}
		} else if prefixed && !slices.Contains(clusterListenerKeys, base) {
			perBroker = append(perBroker, key)
		}
	}
	if len(fixed) > 0 {
		return refuseKeys("Cannot update these configs dynamically", fixed)
	}
	if len(unprefixed) > 0 {
		return refuseKeys("These security configs can be dynamically updated only per-listener using the listener prefix", unprefixed)
	}
	for _, key := range slices.Sorted(maps.Keys(stored)) {
		if o, ok := BrokerOption(key); ok {
			if err := o.Validate(stored[key]); err != nil {
				return err
			}
		}
	}
	if !own && len(perBroker) > 0 {
		return refuseKeys("Cannot update these configs at default cluster level, broker id must be specified", perBroker)
	}
	next := now
	if own {
		next.DynamicBroker = stored
	} else {
		next.DynamicDefault = stored
	}
	return checkEffect(now, next)
}

// clusterListenerKeys may have a listener's prefix in the cluster default.
var clusterListenerKeys = []string{"max.connections", "max.connection.creation.rate", "num.network.threads"}

func refuseKeys(rule string, keys []string) error {
	javaSetOrder(keys)
	return &InvalidError{Key: keys[0], Message: rule + ": [" + strings.Join(keys, ", ") + "]"}
}

// javaSetOrder sorts keys as a java.util.HashSet of them prints, so that messages are the same to the letter.
func javaSetOrder(keys []string) {
	buckets := 16
	for len(keys) > buckets*3/4 {
		buckets *= 2
	}
	place := func(s string) int {
		var h uint32
		for i := range len(s) {
			h = 31*h + uint32(s[i])
		}
		return int((h ^ h>>16) & uint32(buckets-1))
	}
	slices.SortFunc(keys, func(a, b string) int {
		if d := place(a) - place(b); d != 0 {
			return d
		}
		return strings.Compare(a, b) // Kafka's order here is that of insertion, which nobody can rely on
	})
}

// resized are the pools that Kafka changes while it runs: to no less than half and no more than double at a time.
var resized = []string{
	"num.io.threads", "num.network.threads", "num.replica.fetchers", "num.recovery.threads.per.data.dir", "background.threads",
	"remote.log.reader.threads", "remote.log.manager.copier.thread.pool.size", "remote.log.manager.expiration.thread.pool.size",
	"remote.log.manager.follower.thread.pool.size",
}

// atStart are options that Kafka changes at run time and this version of Quire does not.
var atStart = []string{"listeners", "listener.security.protocol.map", "sasl.enabled.mechanisms", "num.recovery.threads.per.data.dir"}

func checkEffect(now, next Layers) error {
	if err := checkTimes(nil, next); err != nil {
		return err
	}
	if err := checkCleaner(nil, next); err != nil {
		return err
	}
	for _, key := range resized {
		is, will := now.Of(key), next.Of(key)
		if m := resize(is.Int64(), will.Int64()); m != "" {
			return &InvalidError{key, will.Text, fmt.Sprintf("Dynamic thread count update validation failed for %s=%s, %s", key, will.Text, m)}
		}
	}
	switch is, will := now.Of("log.cleaner.threads").Int64(), next.Of("log.cleaner.threads"); {
	case will.Int64() == is:
	case will.Int64() < 1:
		return &InvalidError{will.Option.Key, will.Text, "Log cleaner threads should be at least 1"}
	case will.Int64() < is/2:
		return &InvalidError{will.Option.Key, will.Text, fmt.Sprintf("Log cleaner threads cannot be reduced to less than half the current value %d", is)}
	case will.Int64() > is*2:
		return &InvalidError{will.Option.Key, will.Text, fmt.Sprintf("Log cleaner threads cannot be increased to more than double the current value %d", is)}
	}
	// Kafka would open and close sockets, or resize a pool, here. To store such a change and go on as before would be a lie, so it is refused.
	for _, key := range atStart {
		if is, will := now.Of(key), next.Of(key); is.Text != will.Text {
			return refuseAtStart(will.Option, key, will.Text)
		}
	}
	for _, stored := range []map[string]string{next.DynamicDefault, next.DynamicBroker} {
		for _, key := range slices.Sorted(maps.Keys(stored)) {
			base, prefixed := Base(key)
			if !prefixed || !slices.Contains(loginKeys, base) {
				continue
			}
			if is, ok := now.Static[key]; !ok || is != stored[key] {
				o, _ := Lookup(Broker(), base)
				return refuseAtStart(o, key, stored[key])
			}
		}
	}
	return nil
}

// loginKeys are what a listener demands of clients, under its prefix.
var loginKeys = []string{"sasl.enabled.mechanisms", "sasl.jaas.config", "sasl.server.max.receive.size", "connections.max.reauth.ms"}

func refuseAtStart(o *Option, key, value string) error {
	if o.Sensitive() {
		value = "[hidden]"
	}
	return &InvalidError{key, value, fmt.Sprintf("Invalid value %s for configuration %s: Quire reads it at start alone; change server.properties and restart", value, key)}
}

func resize(is, will int64) string {
	switch {
	case will == is:
		return ""
	case will < 1:
		return "value should be at least 1"
	case will < is/2:
		return fmt.Sprintf("value should be at least half the current value %d", is)
	case will > is*2:
		return fmt.Sprintf("value should not be greater than double the current value %d", is)
	}
	return ""
}
