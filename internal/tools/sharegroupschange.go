package tools

import (
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func (c *shareGroupsCommand) delete() error {
	ids, err := c.ids()
	if err != nil {
		return err
	}
	javaMapOrder(ids, javaHash, javaMapCapacity)
	there, err := c.groupsOfType("Share", nil)
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
	deleted, err := c.deleteGroups("deleteShareGroups", ids, failed)
	if err == nil {
		c.tellDeleted("share", "", ids, deleted, failed)
	}
	return err
}

// reset moves a group that has no members, or shows where it would go. A group that does not exist is made.
func (c *shareGroupsCommand) reset() error {
	id, _, err := c.set.text("group")
	if err != nil {
		return err
	}
	groups, err := c.groupsOfType("Share", nil)
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
	} else if partitions, err = c.partitionsToReset("topic"); err != nil {
		return err
	}
	when, ok, err := c.timeToReset()
	if err != nil {
		return err
	}
	if !ok {
		return c.set.parser.usage("Option '[reset-offsets]' requires one of the following scenarios: [[to-datetime], [to-earliest], [to-latest]]")
	}
	rows, err := c.walk().at(partitions, when)
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
	slices.Sort(topics)
	var rows [][]string
	for _, topic := range slices.Compact(topics) {
		status := "Successful"
		if e := result[topic]; e != nil {
			status = "Error: " + e.text()
		}
		rows = append(rows, []string{topic, status})
	}
	printGroupTable(c.env.Stdout, []groupColumn{{title: "TOPIC", width: minColumn}, {title: "STATUS"}}, rows)
	return nil
}
