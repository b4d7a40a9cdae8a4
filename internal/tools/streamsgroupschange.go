package tools

import (
	"fmt"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// delete deletes groups, and their internal topics if it is told to.
func (c *streamsGroupsCommand) delete() error {
	ids, err := c.ids()
	if err != nil {
		return err
	}
	there, err := c.groupsOfType("Streams", nil)
	if err != nil {
		return runtimeException(err)
	}
	failed := map[string]*javaError{}
	for _, id := range ids {
		i := slices.IndexFunc(there, func(g kmsg.ListGroupsResponseGroup) bool { return g.Group == id })
		switch {
		case i < 0:
			failed[id] = throw(illegalArgument, "Group '"+id+"' does not exist or is not a streams group.")
		case there[i].GroupState == "Dead":
			failed[id] = throw("java.lang.IllegalStateException", "Streams group '"+id+"' group state is DEAD.")
		case there[i].GroupState != "Empty":
			failed[id] = throw(kafkaErrors+"GroupNotEmptyException", "Streams group '"+id+"' is not EMPTY.")
		}
	}
	slices.Sort(ids)
	ids = slices.Compact(ids)
	javaMapOrder(ids, javaHash, javaMapCapacity)
	inner := map[string][]string{}
	if c.set.has("delete-all-internal-topics") {
		// Who deletes a group does not know its topics any more.
		inner = c.internalTopics(slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return failed[id] != nil }))
	}
	deleted, err := c.deleteGroups("deleteStreamsGroups", ids, failed)
	if err != nil {
		return err
	}
	innerFailed := c.deleteInternal(deleted, inner)
	c.tellDeleted("streams", ".", ids, deleted, failed)
	if len(inner) == 0 || len(deleted) == 0 {
		return nil
	}
	out := c.env.Stdout
	if len(innerFailed) == 0 {
		done := slices.DeleteFunc(deleted, func(id string) bool { return inner[id] == nil })
		fmt.Fprintf(out, "Deletion of associated internal topics of the streams groups ('%s') was successful.\n", strings.Join(done, "', '"))
		return nil
	}
	fmt.Fprintln(out, "Deletion of some associated internal topics failed:")
	for _, id := range deleted {
		if e := innerFailed[id]; e != nil {
			fmt.Fprintf(out, "* Internal topics of the streams group '%s' could not be deleted due to: %s\n", id, e)
		}
	}
	return nil
}

// internalTopics are the topics that the applications of groups made for themselves. What it cannot find out, it tells.
func (c *streamsGroupsCommand) internalTopics(ids []string) map[string][]string {
	all := map[string][]string{}
	for _, id := range ids {
		g, err := c.describeStreams(id)
		if err != nil {
			e := executionException(err)
			printGroupError(c.env, "Retrieving internal topics failed due to "+e.text())
			fmt.Fprintln(c.env.Stderr, e.trace())
			return nil
		}
		for _, s := range g.subtopologies() {
			for _, t := range slices.Concat(s.RepartitionSourceTopics, s.StateChangelogTopics) {
				switch {
				case g.reads(t.Topic, false):
				case isInternalTopic(id, t.Topic):
					all[id] = append(all[id], t.Topic)
				default:
					printGroupError(c.env, fmt.Sprintf("The internal topic '%s' is not inferred as internal and thus will not be deleted with the group '%s'.", t.Topic, id))
				}
			}
		}
	}
	return all
}

// deleteInternal deletes the internal topics of groups that were deleted. It returns why some are still there, by group.
func (c *streamsGroupsCommand) deleteInternal(deleted []string, inner map[string][]string) map[string]*javaError {
	failed := map[string]*javaError{}
	for _, id := range deleted {
		if len(inner[id]) == 0 {
			continue
		}
		left, err := c.deleteTopics(inner[id])
		if err != nil {
			failed[id] = asJava(err)
		}
		javaMapOrder(left, func(t spared) uint32 { return javaHash(t.topic) }, len(inner[id]))
		for _, t := range left {
			fmt.Fprintf(c.env.Stdout, "Failed to delete internal topic: %s\n", t.topic)
			failed[id] = t.err
		}
	}
	return failed
}

// reset moves groups that have no members, or shows where they would go.
func (c *streamsGroupsCommand) reset() error {
	ids, err := c.ids()
	if err != nil {
		return err
	}
	slices.Sort(ids)
	ids = slices.Compact(ids)
	javaMapOrder(ids, javaHash, javaMapCapacity)
	moved := make(map[string][]resetRow, len(ids))
	for _, id := range ids {
		g, err := c.describeStreams(id)
		switch {
		case err != nil && !isKafkaError(err, kerr.GroupIDNotFound):
			return runtimeException(executionException(err))
		case err == nil && g.State != "Empty" && g.State != "Dead":
			printGroupError(c.env, fmt.Sprintf("Assignments can only be reset if the group '%s' is inactive, but the current state is %s.", id, g.State))
			continue
		}
		if moved[id], err = c.resetStreams(id); err != nil {
			return err
		}
		if g != nil && c.set.has("execute") {
			c.deleteInternalOf(id)
		}
	}
	switch {
	case c.set.has("export"):
		c.exportResets(ids, moved)
	case len(ids) == 0:
		fmt.Fprintln(c.env.Stdout)
	default:
		printGroupTable(c.env.Stdout, []groupColumn{
			{title: "GROUP", width: 30, fixed: true}, {title: "TOPIC", width: 30, fixed: true}, {title: "PARTITION", width: 10, fixed: true}, {title: "NEW-OFFSET", width: 15, fixed: true},
		}, resetCells(ids, moved))
	}
	return nil
}

// resetStreams finds out where a group goes, and moves it there with --execute.
func (c *streamsGroupsCommand) resetStreams(id string) ([]resetRow, error) {
	partitions, err := c.inputPartitions(id)
	if err != nil {
		return nil, err
	}
	var commits []committed
	if c.set.has("shift-by") || c.set.has("to-current") {
		if commits, err = c.commitsOf(id, true); err != nil {
			return nil, err
		}
	}
	rows, err := c.resetTo(id, partitions, commits)
	if err != nil {
		return nil, err
	}
	javaMapOrder(rows, resetRow.javaHash, javaMapCapacity)
	if c.set.has("execute") && len(rows) > 0 {
		err = c.commit(id, rows)
	}
	return rows, err
}

// commitsOf is committedTo of a group that is to be asked for first.
func (c *streamsGroupsCommand) commitsOf(id string, inner bool) ([]committed, error) {
	g, err := c.describeStreams(id)
	if err != nil {
		return nil, runtimeException(executionException(err))
	}
	return c.committedTo(g, inner)
}

// inputPartitions are the partitions that the options name. Those of --input-topic must be among those that the group has committed to.
func (c *streamsGroupsCommand) inputPartitions(id string) ([]groupPartition, error) {
	switch {
	case c.set.has("all-input-topics"):
		return c.committedInput(id)
	case c.set.has("input-topic"):
		partitions, err := c.partitionsToReset("input-topic")
		if err != nil {
			return nil, err
		}
		commits, err := c.committedBy(id)
		if err != nil {
			return nil, runtimeException(executionException(err))
		}
		for _, p := range partitions {
			if !slices.ContainsFunc(commits, func(at committed) bool { return at.groupPartition == p }) {
				printGroupError(c.env, "One or more topics are not part of the group '"+id+"'.")
				return nil, nil
			}
		}
		return partitions, nil
	case c.set.has("from-file"):
		return nil, nil
	}
	return nil, c.set.parser.usage("One of the reset scopes should be defined: --all-topics, --topic.")
}

// committedInput are the partitions of the source topics that a group has committed to.
func (c *streamsGroupsCommand) committedInput(id string) ([]groupPartition, error) {
	commits, err := c.commitsOf(id, false)
	var all []groupPartition
	for _, at := range commits {
		all = append(all, at.groupPartition)
	}
	return all, err
}

// deleteInternalOf deletes those internal topics of a group that was reset which the options name. What fails is told.
func (c *streamsGroupsCommand) deleteInternalOf(id string) {
	topics := c.set.all("delete-internal-topic")
	if c.set.has("delete-all-internal-topics") {
		topics = c.internalTopics([]string{id})[id]
	}
	if len(topics) == 0 {
		return
	}
	left, err := c.deleteTopics(topics)
	if err == nil && len(left) > 0 {
		err = left[0].err
	}
	switch {
	case err == nil:
	case isKafkaError(err, kerr.UnknownTopicOrPartition):
		printGroupError(c.env, "Deleting internal topics for group '"+id+"' failed because the topics do not exist.")
	default:
		e := executionException(err)
		printGroupError(c.env, fmt.Sprintf("Deleting internal topics for group '%s' failed due to %s", id, e.text()))
		fmt.Fprintln(c.env.Stderr, e.trace())
	}
}

// deleteOffsets forgets where a group stands in topics.
func (c *streamsGroupsCommand) deleteOffsets() error {
	id, _, err := c.set.text("group")
	if err != nil {
		return err
	}
	var partitions []groupPartition
	var whole []string
	if c.set.has("all-input-topics") {
		partitions, err = c.committedInput(id)
	} else {
		partitions, whole, err = c.topicPartitions("input-topic")
	}
	if err != nil {
		return err
	}
	return c.forgetOffsets(id, partitions, whole)
}
