package tools

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// An openTransaction is one that has begun in a partition and not ended there.
type openTransaction struct {
	at groupPartition
	activeProducer
}

// findHanging looks for transactions in partitions that no coordinator knows of any more: they will never end.
func (t *transactionsCommand) findHanging() error {
	partitions, broker, onBroker, err := t.hangingScope()
	if err != nil {
		return err
	}
	minutes, _ := t.values.number("max-transaction-timeout")
	now := time.Now().UnixMilli()
	var open []openTransaction
	if len(partitions) > 0 {
		producers, err := t.producersOn(partitions, broker, onBroker)
		if err != nil {
			where := "Optional.empty"
			if onBroker {
				where = fmt.Sprintf("Optional[%d]", broker)
			}
			return debugFailure(fmt.Sprintf("Failed to describe producers for %d partitions on broker %s", len(partitions), where), err)
		}
		for _, at := range sortedPartitions(producers) {
			for _, p := range producers[at] {
				if p.CurrentTxnStartOffset >= 0 && now-p.LastTimestamp > minutes*time.Minute.Milliseconds() {
					open = append(open, openTransaction{at, p})
				}
			}
		}
	}
	hanging, err := t.hanging(open)
	if err != nil {
		return err
	}
	var rows [][]string
	for _, o := range hanging {
		rows = append(rows, []string{o.at.topic, strconv.Itoa(int(o.at.partition)), strconv.FormatInt(o.ProducerID, 10), strconv.Itoa(int(o.ProducerEpoch)),
			strconv.Itoa(int(o.CoordinatorEpoch)), strconv.FormatInt(o.CurrentTxnStartOffset, 10), strconv.FormatInt(o.LastTimestamp, 10),
			strconv.FormatInt((now-o.LastTimestamp)/time.Minute.Milliseconds(), 10)})
	}
	printPretty(t.env.Stdout, []string{"Topic", "Partition", "ProducerId", "ProducerEpoch", "CoordinatorEpoch", "StartOffset", "LastTimestamp", "Duration(min)"}, rows)
	return nil
}

// hangingScope are the partitions to look at, and the broker to ask, if it is one.
func (t *transactionsCommand) hangingScope() (partitions []groupPartition, broker int32, onBroker bool, err error) {
	id, onBroker := t.values.number("broker-id")
	partition, one := t.values.number("partition")
	topic := t.values.text("topic")
	switch {
	case topic == "" && !onBroker:
		return nil, 0, false, terse("The `find-hanging` command requires either --topic or --broker-id to limit the scope of the search")
	case topic == "" && one:
		return nil, 0, false, terse("The --partition argument requires --topic to be provided")
	case one:
		return []groupPartition{{topic, int32(partition)}}, int32(id), onBroker, nil
	}
	var topics []string
	complaint := "Failed to list topics"
	if topic != "" {
		topics, complaint = []string{topic}, "Failed to describe 1 topics"
	}
	resp, err := t.metadata("describeTopics", topics)
	if err != nil {
		return nil, 0, false, debugFailure(complaint, err)
	}
	for _, m := range resp.Topics {
		if e := brokerError(m.ErrorCode, nil); e != nil {
			return nil, 0, false, debugFailure(complaint, e)
		}
		for _, p := range m.Partitions {
			if !onBroker || slices.Contains(p.Replicas, int32(id)) {
				partitions = append(partitions, groupPartition{*m.Topic, p.Partition})
			}
		}
	}
	return partitions, int32(id), onBroker, nil
}

// hanging keeps the transactions that no coordinator has.
func (t *transactionsCommand) hanging(open []openTransaction) ([]openTransaction, error) {
	if len(open) == 0 {
		return nil, nil
	}
	req := kmsg.NewPtrListTransactionsRequest()
	req.DurationFilterMillis = -1
	for _, o := range open {
		if !slices.Contains(req.ProducerIDFilters, o.ProducerID) {
			req.ProducerIDFilters = append(req.ProducerIDFilters, o.ProducerID)
		}
	}
	listed, err := t.listTransactions(req)
	if err != nil {
		return nil, debugFailure(fmt.Sprintf("Failed to list transactions for %d producers", len(req.ProducerIDFilters)), err)
	}
	known := map[int64]map[groupPartition]bool{} // by producer, the partitions of its transaction
	for _, l := range listed {
		state, _, err := t.stateOf(l.TransactionalID)
		if err != nil {
			return nil, debugFailure(fmt.Sprintf("Failed to describe %d transactions", len(listed)), err)
		}
		of := map[groupPartition]bool{}
		for _, topic := range state.Topics {
			for _, p := range topic.Partitions {
				of[groupPartition{topic.Topic, p}] = true
			}
		}
		known[l.ProducerID] = of
	}
	return slices.DeleteFunc(open, func(o openTransaction) bool { return known[o.ProducerID][o.at] }), nil
}
