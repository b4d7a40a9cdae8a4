package tools

import (
	"fmt"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func (c *shareGroupsCommand) delete() error {
	ids, err := c.ids()
	if err != nil {
		return err
	}
	javaMapOrder(ids, javaHash, javaMapCapacity)
	there, err := c.shareGroups(nil)
	if err != nil {
		return err
	}
	failed := map[string]*javaError{}
	for _, id := range ids {
		i := slices.IndexFunc(there, func(g kmsg.ListGroupsResponseGroup) bool { return g.Group == id })
		switch {
		case i < 0:
			failed[id] = throw(illegalArgument, "Group '"+id+"' is not a share group.")
		case there[i].GroupState != "Empty":
			failed[id] = throw(kafkaErrors+"GroupNotEmptyException", "Share group '"+id+"' is not EMPTY.")
		}
	}
	req := kmsg.NewPtrDeleteGroupsRequest()
	req.Groups = slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return failed[id] != nil })
	if len(req.Groups) > 0 {
		resp, err := call[*kmsg.DeleteGroupsResponse](c.admin, "deleteShareGroups", req)
		if err != nil {
			return runtimeException(err)
		}
		for _, g := range resp.Groups {
			if e := brokerError(g.ErrorCode, g.ErrorMessage); e != nil {
				failed[g.Group] = e
			}
		}
	}
	deleted := slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return failed[id] != nil })
	if len(failed) == 0 {
		fmt.Fprintf(c.env.Stdout, "Deletion of requested share groups ('%s') was successful.\n", strings.Join(deleted, "', '"))
		return nil
	}
	printGroupError(c.env, "Deletion of some share groups failed:")
	for _, id := range ids {
		if e := failed[id]; e != nil {
			fmt.Fprintf(c.env.Stdout, "* Group '%s' could not be deleted due to: %s\n", id, e)
		}
	}
	if len(deleted) > 0 {
		fmt.Fprintf(c.env.Stdout, "\nThese share groups were deleted successfully: '%s'\n", strings.Join(deleted, "', '"))
	}
	return nil
}

// reset moves a group that has no members, or shows where it would go. A group that does not exist is made.
func (c *shareGroupsCommand) reset() error {
	id, _, err := c.set.text("group")
	if err != nil {
		return err
	}
	groups, err := c.shareGroups(nil)
	if err != nil {
		return err
	}
	for _, g := range groups {
		if g.Group == id && g.GroupState != "Empty" && g.GroupState != "Dead" {
			fmt.Fprintf(c.env.Stderr, "Share group '%s' is not empty.\n", id)
			return &exitError{1}
		}
	}
	var partitions []groupPartition
	if c.set.has("all-topics") {
		offsets, err := c.shareOffsets(id)
		if err != nil {
			return executionException(err)
		}
		for _, o := range offsets {
			partitions = append(partitions, o.groupPartition)
		}
	} else if partitions, err = c.partitionsToReset(); err != nil {
		return err
	}
	var rows []resetRow
	switch {
	case c.set.has("to-earliest"):
		rows, err = c.resetByTime(partitions, namedTimes["earliest"])
	case c.set.has("to-latest"):
		rows, err = c.resetByTime(partitions, namedTimes["latest"])
	case c.set.has("to-datetime"):
		var text string
		if text, _, err = c.set.text("to-datetime"); err != nil {
			return err
		}
		var when int64
		if when, err = javaDateTime(text); err != nil {
			return runtimeException(err)
		}
		rows, err = c.resetByTime(partitions, when)
	default:
		return c.set.parser.usage("Option '[reset-offsets]' requires one of the following scenarios: [[to-datetime], [to-earliest], [to-latest]]")
	}
	if err != nil {
		return err
	}
	slices.SortFunc(rows, compareResets)
	if c.set.has("execute") && len(rows) > 0 {
		if err := c.alter(id, rows); err != nil {
			return executionException(err)
		}
	}
	c.printResets([]string{id}, map[string][]resetRow{id: rows})
	return nil
}

func (c *shareGroupsCommand) alter(id string, rows []resetRow) error {
	if err := c.served("alterShareGroupOffsets", kmsg.AlterShareGroupOffsets, "ALTER_SHARE_GROUP_OFFSETS"); err != nil {
		return err
	}
	req := kmsg.NewPtrAlterShareGroupOffsetsRequest()
	req.GroupID = id
	for _, r := range rows {
		if n := len(req.Topics); n == 0 || req.Topics[n-1].Topic != r.topic {
			t := kmsg.NewAlterShareGroupOffsetsRequestTopic()
			t.Topic = r.topic
			req.Topics = append(req.Topics, t)
		}
		p := kmsg.NewAlterShareGroupOffsetsRequestTopicPartition()
		p.Partition, p.StartOffset = r.partition, r.offset
		t := &req.Topics[len(req.Topics)-1]
		t.Partitions = append(t.Partitions, p)
	}
	resp, err := call[*kmsg.AlterShareGroupOffsetsResponse](c.admin, "alterShareGroupOffsets", req)
	if err != nil {
		return err
	}
	if e := brokerError(resp.ErrorCode, resp.ErrorMessage); e != nil {
		return e
	}
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			if e := brokerError(p.ErrorCode, p.ErrorMessage); e != nil {
				return e
			}
		}
	}
	return nil
}

func (c *shareGroupsCommand) deleteOffsets() error {
	id, _, err := c.set.text("group")
	if err != nil {
		return err
	}
	if err := c.served("deleteShareGroupOffsets", kmsg.DeleteShareGroupOffsets, "DELETE_SHARE_GROUP_OFFSETS"); err != nil {
		return executionException(err)
	}
	topics := c.set.all("topic")
	req := kmsg.NewPtrDeleteShareGroupOffsetsRequest()
	req.GroupID = id
	for _, topic := range topics {
		t := kmsg.NewDeleteShareGroupOffsetsRequestTopic()
		t.Topic = topic
		req.Topics = append(req.Topics, t)
	}
	resp, err := call[*kmsg.DeleteShareGroupOffsetsResponse](c.admin, "deleteShareGroupOffsets", req)
	if err != nil {
		return executionException(err)
	}
	result := map[string]*javaError{}
	if e := brokerError(resp.ErrorCode, resp.ErrorMessage); e != nil {
		printGroupError(c.env, e.text())
		for _, topic := range topics {
			result[topic] = e
		}
	}
	for _, t := range resp.Topics {
		if e := brokerError(t.ErrorCode, t.ErrorMessage); e != nil {
			result[t.Topic] = e
		}
	}
	width := minColumn
	for _, topic := range topics {
		width = max(width, len(topic))
	}
	line := func(topic, status string) { fmt.Fprintf(c.env.Stdout, "\n%-*s %s", width, topic, status) }
	line("TOPIC", "STATUS")
	slices.Sort(topics)
	for _, topic := range slices.Compact(topics) {
		status := "Successful"
		if e := result[topic]; e != nil {
			status = "Error: " + e.text()
		}
		line(topic, status)
	}
	fmt.Fprintln(c.env.Stdout)
	return nil
}
