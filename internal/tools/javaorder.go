package tools

import (
	"fmt"
	"slices"
	"unicode/utf16"
)

// Where Kafka's tools print what a hash map of Java's holds, in its order, so do ours: texts that scripts compare should
// not differ without need.

// javaHash is String.hashCode.
func javaHash(s string) uint32 {
	var h uint32
	for _, unit := range utf16.Encode([]rune(s)) {
		h = 31*h + uint32(unit)
	}
	return h
}

// javaMapOrder sorts entries as a java.util.HashMap lists them to which they were added one after the other. capacity is
// what the map was made for, 16 unless told. Two entries in one bucket keep their order.
func javaMapOrder[E any](entries []E, hash func(E) uint32, capacity int) {
	buckets := 1
	for buckets < capacity {
		buckets *= 2
	}
	for len(entries) > buckets*3/4 {
		buckets *= 2
	}
	place := func(e E) int {
		h := hash(e)
		return int((h ^ h>>16) & uint32(buckets-1))
	}
	slices.SortStableFunc(entries, func(a, b E) int { return place(a) - place(b) })
}

// javaMapCapacity is what HashMap() is made for.
const javaMapCapacity = 16

// partitionName is a partition as Java prints it.
func partitionName(topic string, partition int32) string {
	return fmt.Sprintf("%s-%d", topic, partition)
}
