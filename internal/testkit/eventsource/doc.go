// Package eventsource emulates Lambda's event source mapping for Kinesis. It reads a stream and
// hands its records to a function in this process, with the rules of a mapping for batches, order,
// failures, retries and discarded records. It is for tests: no other emulator has these rules.
//
// [Mapping] has the settings of Lambda. [Mapping.Run] runs one mapping in real time, on any
// stream, for example of kinesis-mock. [Sim] runs several mappings in virtual time on a [Stream]
// in memory, one step at a time, in an order that a seed decides. A test can cause throttles,
// time-outs, crashes, any answer, effects after a time-out, restarts and two concurrent pollers.
// The same seed always gives the same history.
//
// The way of a record, by file:
//
//   - stream.go (or Kinesis) stores it;
//   - lineage.go decides when its shard may be read, and shard.go reads it;
//   - parallel.go puts it into a lane, batch.go into a batch and event.go into an event;
//   - answer.go reads the answer of the function, and failure.go decides what follows;
//   - destination.go writes discarded records, and checkpoint.go the progress.
//
// poller.go calls all of these. run.go and sim.go drive the poller.
//
// # Sources
//
// Comments name the pages of AWS by these words:
//
//   - Using: Lambda Developer Guide, "Using Lambda to process records from Amazon Kinesis
//     Data Streams" (with-kinesis)
//   - Partial: the same, "Configuring partial batch response with Kinesis Data Streams and
//     Lambda" (services-kinesis-batchfailurereporting)
//   - Discarded: the same, "Retain discarded batch records for a Kinesis Data Streams event
//     source in Lambda" (kinesis-on-failure-destination)
//   - Parameters: the same, "Lambda parameters for Amazon Kinesis Data Streams event source
//     mappings" (services-kinesis-parameters)
//   - Options: the same, edition of 2022, "Using AWS Lambda with Amazon Kinesis",
//     "Configuring a stream as an event source"
//   - Quotas, Metrics: the same, "Lambda quotas", "Types of metrics for Lambda functions"
//   - Resharding: Kinesis Data Streams Developer Guide, "Complete the resharding action"
//   - Concepts: the same, "Terminology and concepts"
//   - Read: Kinesis Data Streams API Reference, "GetRecords" and "GetShardIterator"
//   - Recorded: on no page of AWS, but in the recordings of AWS that the tests of LocalStack
//     contain (tests/aws/services/lambda_/event_source_mapping,
//     test_lambda_integration_kinesis.snapshot.json, of 2025-11-25)
//   - Observed: on no page of AWS, but in the recordings of AWS that the tests of stackd contain
//     (github.com/radkawar/stackd, testdata/aws/lambda, of 2026-09-19). Each case ran once.
//
// # Documented
//
// AWS documents these rules, and this package follows them:
//
//   - A batch holds records of one shard, with limits of number and payload.
//   - The form of the event.
//   - A parent shard is read before its children.
//   - Several batches of a shard run at a time, and the records of a partition key stay in order.
//   - Which answers mean success, failure or a partial failure. Answers count only with
//     ReportBatchItemFailures.
//   - With bisect, a batch is split in two if its invocation failed. After a partial answer it is
//     split at the returned sequence number. Splitting uses up no retries.
//   - Retries and record age. A throttle is no attempt.
//   - What a destination gets, and the name of the object.
//   - A mapping resumes at its checkpoint.
//
// # Assumed
//
// AWS does not document these rules, and Lambda may behave differently:
//
//   - An answer that names the first record of a batch is a partial one, also with bisect: the whole
//     batch is retried without a split, and this is an attempt. [Reading] has the other reading, in
//     which the batch is bisected. AWS did that with a batch of three (Observed,
//     kinesis_followup.json, partial_bisect), but documents it nowhere. So the default is the reading
//     that is harder for a function, and tests of functions play both.
//   - The first half of an odd batch is the smaller one. The halves are delivered one after the
//     other. (Of three records, both are Observed.)
//   - The records that remain after a partial failure have all attempts again, with bisect too.
//     (Without bisect this is Recorded.)
//   - A hash divides the partition keys among the lanes. A failing lane stops the reading of the
//     shard only when 20,000 records of the shard wait.
//   - A shard has one checkpoint, before its first unfinished record. The checkpoint never moves
//     back. So a restart delivers again what faster lanes had finished.
//   - A child starts when all records of its parent are delivered or discarded, not only read.
//   - Records that outlive the retention of the stream while the mapping retries them are lost.
//     They go to no destination.
//   - An answer that AWS calls a complete failure (an empty, null or misnamed identifier) is a
//     failed invocation for bisect. So is an answer with an identifier of no record of the batch, or
//     with one invalid identifier among valid ones. An answer that is not an object is success.
//   - The approximateInvokeCount of the document does not count invocations that ended in a split.
//   - The pauses before retries double from one second to one minute.
//
// # Not emulated
//
//   - Enhanced fan-out and its decoding of aggregates, starting positions other than TRIM_HORIZON,
//     batching and tumbling windows, filters, Kafka destinations, provisioned pollers, limits of
//     throughput, and changes of settings while a mapping runs.
//   - A record that alone exceeds the payload limit is delivered all the same. AWS gave such a record
//     to no invocation. Without retries it went to the destination, and the next record was delivered
//     (Observed, kinesis_oversized.json).
//   - After a bisect the batchSize of a document "could be greater than 1 since Lambda
//     consolidates failed messages metadata" (CloudFormation, "AWS::Lambda::EventSourceMapping",
//     BisectBatchOnFunctionError). Here each part has a document of its own.
//   - Null partition keys (Kinesis Data Streams Developer Guide, "AWS Lambda triggers with
//     service-managed streams") are empty texts here.
//   - Lambda delivers records twice by itself ("Lambda event source mappings process each event at
//     least once", Using). A test causes this with a second poller or a restart.
package eventsource
