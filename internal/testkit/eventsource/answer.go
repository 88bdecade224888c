package eventsource

import "encoding/json"

// outcome is the result of an invocation.
type outcome struct {
	delivered int   // the number of delivered records at the start of the batch
	failed    bool  // the other records failed
	named     bool  // the answer names the first of these
	throttled bool  // the invocation did not reach the function
	err       error // the error of the invocation; nil if the function answered
}

// readAnswer finds the first failed record of a batch in the answer of a function (Partial). The
// case of names matters.
//
//   - An empty, null or missing list is success, and so is an empty or null answer.
//   - An itemIdentifier that is empty, null, misnamed or of no record of the batch is "a complete
//     failure", as an error is: on this page every result that is neither a complete nor a partial
//     success is one. So it names no record. (Of no record of the batch: assumed.)
//   - Of several identifiers the lowest counts.
func readAnswer(answer json.RawMessage, items []*item) outcome {
	all, none := outcome{delivered: len(items)}, outcome{failed: true}
	var members map[string]json.RawMessage
	if json.Unmarshal(answer, &members) != nil {
		return all // "", [], null and everything else that is not an object names no failure
	}
	list, there := members["batchItemFailures"]
	if !there {
		return all
	}
	var failures []map[string]json.RawMessage // empty for null
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
		_ = json.Unmarshal(failure["itemIdentifier"], &id) // an identifier that is not a text is of no record
		i, known := position[id]
		if !known {
			return none
		}
		lowest = outcome{delivered: min(lowest.delivered, i), failed: true, named: true}
	}
	return lowest
}
