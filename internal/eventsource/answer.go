package eventsource

import "encoding/json"

// outcome is what an invocation came to: how many records of the batch are
// delivered, from the first on.
type outcome struct {
	delivered int
	failed    bool  // the others failed
	throttled bool  // the function was not reached
	err       error // of an invocation that failed, not of one that answered
}

// readAnswer finds the first failed record of a batch in a function's answer
// (Partial). Names count as written, not in any case.
//
// A list that is empty, null or missing is success, as is an empty or null answer.
// One itemIdentifier that is empty, null, misnamed, or no record of the batch, fails
// the whole batch. Of several the lowest counts.
func readAnswer(answer json.RawMessage, items []*item) outcome {
	all, none := outcome{delivered: len(items)}, outcome{failed: true}
	var members map[string]json.RawMessage
	if json.Unmarshal(answer, &members) != nil {
		return all // "", [], null and whatever else is no object: it names no failure
	}
	list, there := members["batchItemFailures"]
	if !there {
		return all
	}
	var failures []map[string]json.RawMessage // none of null
	if json.Unmarshal(list, &failures) != nil {
		return none
	}
	position := make(map[string]int, len(items))
	for i, it := range items {
		position[*it.SequenceNumber] = i
	}
	lowest := all
	for _, failure := range failures {
		var id string
		_ = json.Unmarshal(failure["itemIdentifier"], &id) // what is no text names no record either
		i, known := position[id]
		if !known {
			return none
		}
		lowest = outcome{delivered: min(lowest.delivered, i), failed: true}
	}
	return lowest
}
