package config

import (
	"maps"
	"slices"
	"strings"
)

// An Entry is a value as DescribeConfigs shows it.
type Entry struct {
	Key       string
	Type      Type
	Text      string
	Null      bool // no value, or a secret one
	Source    Source
	ReadOnly  bool
	Sensitive bool
	Synonyms  []Synonym
	Doc       string // "" of a key that no table has
}

func entry(key string, v Value, readOnly bool) Entry {
	return Entry{
		Key: key, Type: v.Option.Type, Text: v.Text, Null: v.Null, Source: v.Source, ReadOnly: readOnly,
		Sensitive: v.Option.Sensitive(), Synonyms: v.Synonyms, Doc: v.Option.Documentation(),
	}
}

// DescribeBroker lists a broker's options, and what else its layers hold: keys of plug-ins and of single listeners.
func DescribeBroker(l Layers) []Entry {
	var entries []Entry
	set := map[string]bool{}
	for _, layer := range l.each() {
		for key := range layer.values {
			set[key] = true
		}
	}
	for i := range Broker() {
		o := &Broker()[i]
		if o.Hidden() && !set[o.Key] {
			continue
		}
		delete(set, o.Key)
		entries = append(entries, entry(o.Key, BrokerValue(o, l), o.Mode == ReadOnly))
	}
	for key := range set {
		entries = append(entries, foreign(key, l))
	}
	return sorted(entries)
}

// DescribeBrokerDefault lists the stored values of the cluster default, alone.
func DescribeBrokerDefault(stored map[string]string) []Entry {
	l := Layers{DynamicDefault: stored}
	var entries []Entry
	for _, key := range slices.Sorted(maps.Keys(stored)) {
		e := foreign(key, l)
		if o, ok := Lookup(Broker(), key); ok {
			e = entry(key, BrokerValue(o, l), o.Mode == ReadOnly)
		}
		e.Synonyms = slices.DeleteFunc(slices.Clone(e.Synonyms), func(s Synonym) bool { return s.Source != DynamicDefaultBroker })
		entries = append(entries, e)
	}
	return entries
}

// foreign describes a key that is no row by itself. What an unknown key holds is shown to nobody, since it may be a plug-in's secret.
func foreign(key string, l Layers) Entry {
	e := Entry{Key: key, Null: true, ReadOnly: true, Sensitive: true, Source: Default}
	base, known := (*Option)(nil), false
	if name, prefixed := Base(key); prefixed {
		if base, known = Lookup(Broker(), name); known {
			e.Type, e.Sensitive, e.Doc = base.Type, base.Sensitive(), base.Documentation()
		}
	}
	for _, layer := range l.each() {
		text, ok := layer.values[key]
		if ok {
			if !e.Sensitive && e.Null {
				e.Text, e.Null = text, false
			}
			e.Synonyms = append(e.Synonyms, Synonym{Key: key, Text: text, Source: layer.source})
		}
		if !known {
			continue
		}
		if text, ok := layer.values[base.Key]; ok && len(e.Synonyms) > 0 {
			e.Synonyms = append(e.Synonyms, Synonym{Key: base.Key, Text: text, Source: layer.source})
		}
	}
	if known && !base.NoDefault && len(e.Synonyms) > 0 {
		e.Synonyms = append(e.Synonyms, Synonym{Key: base.Key, Text: base.Default, Source: Default})
	}
	if e.Sensitive {
		for i := range e.Synonyms {
			e.Synonyms[i].Text, e.Synonyms[i].Null = "", true
		}
	}
	if len(e.Synonyms) > 0 {
		e.Source = e.Synonyms[0].Source
	}
	return e
}

// DescribeTopic lists a topic's options.
func DescribeTopic(overrides map[string]string, l Layers) []Entry {
	return describe(Topic(), overrides, func(o *Option) Value { return TopicValue(o, overrides, l) })
}

// DescribeGroup lists a group's options, whether or not such a group is there.
func DescribeGroup(overrides map[string]string, l Layers) []Entry {
	return describe(Group(), overrides, func(o *Option) Value { return GroupValue(o, overrides, l) })
}

// DescribeClientMetrics lists a subscription's options, whether or not it is there.
func DescribeClientMetrics(values map[string]string) []Entry {
	return describe(ClientMetrics(), values, func(o *Option) Value { return ClientMetricsValue(o, values) })
}

func describe(table []Option, overrides map[string]string, value func(*Option) Value) []Entry {
	var entries []Entry
	for i := range table {
		o := &table[i]
		if _, set := overrides[o.Key]; set || !o.Hidden() {
			entries = append(entries, entry(o.Key, value(o), false))
		}
	}
	return entries
}

func sorted(entries []Entry) []Entry {
	slices.SortFunc(entries, func(a, b Entry) int { return strings.Compare(a.Key, b.Key) })
	return entries
}
