// Package eventsource emulates Lambda's event source mapping for Kinesis: it reads a
// stream and hands its records to a function in this process, with the mapping's rules
// for batches, order, failures, retries and what is given up. It is for tests and demos,
// where nothing else does that.
//
// [Mapping] has Lambda's settings. [Mapping.Run] runs one in real time over any stream,
// such as kinesis-mock. [Sim] runs several in virtual time over a [Stream] in memory,
// one step at a time and in an order that a seed chooses: throttles, time-outs, crashes,
// any answer, late effects of an invocation that timed out, restarts, and two pollers at
// once can be brought about there, and always in the same way.
//
// What happens to a record, by file: stream.go (or Kinesis) has it; lineage.go says when
// its shard may be read, shard.go reads it, parallel.go puts it into a lane, batch.go
// into a batch and event.go into an event; answer.go reads what the function said,
// failure.go decides what follows, destination.go writes down what is given up, and
// checkpoint.go remembers. poller.go calls them, and run.go and sim.go call it.
//
// # Sources
//
// Comments name AWS's pages by these words:
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
//   - Recorded: on no page of AWS, but seen there by LocalStack, whose tests keep
//     recordings of AWS (tests/aws/services/lambda_/event_source_mapping,
//     test_lambda_integration_kinesis.snapshot.json, of 2025-11-25)
//
// # Documented
//
// Batches of one shard, their size, window and payload limit; the form of the event;
// starting positions; parents before children; several batches of a shard with each
// partition key in order; which answers are success, failure, or a part of each, and that
// they count only where ReportBatchItemFailures is on; bisecting, at the returned number
// too, without using up retries; retries and record age, and that throttles are no
// attempts; what a destination gets, and the name of the object; that the mapping resumes
// where it was.
//
// # Assumed
//
// AWS's pages do not say these, and Lambda may do otherwise:
//
//   - A batch whose first record is reported failed is bisected like one that failed as a
//     whole. The first half of an odd batch is the smaller one. The halves are delivered
//     one after the other.
//   - With bisect too, what is left after a partial answer has all its attempts before it.
//     (That it has without bisect is Recorded.)
//   - Partition keys are divided among lanes by a hash. A lane that fails holds up the
//     others only when 20,000 records of the shard are in hand.
//   - A shard has one checkpoint, before its first record that is not done, and it never
//     goes back. So a restart delivers again what other lanes had done.
//   - Children begin when all of the parent is delivered or given up, not only read. A
//     window does not hold up the last batch of a closed shard. With LATEST, shards made
//     later are read from their beginning.
//   - Records that outlive the stream's retention while the mapping retries them are lost,
//     and go to no destination.
//   - An identifier that is no record of the batch, or one bad one among good
//     ones, fails the whole batch. An answer that is no object is success.
//   - The document's approximateInvokeCount leaves out what ended in a split.
//   - Pauses before retries double from one second to one minute.
//
// # Not emulated
//
// Enhanced fan-out and its decoding of aggregates, tumbling windows, filters, Kafka
// destinations, provisioned pollers, limits of throughput, and changes of a mapping's
// settings while it runs. A record that alone exceeds the payload limit is delivered all
// the same. After a bisect a document's batchSize "could be greater than 1 since Lambda
// consolidates failed messages metadata" (CloudFormation, "AWS::Lambda::EventSourceMapping",
// BisectBatchOnFunctionError; which ones, and how, is not said); here each part has its own.
// Null partition keys (Kinesis Data Streams Developer Guide, "AWS Lambda triggers with
// service-managed streams") are empty texts here. With LATEST "the event source mapping
// could miss events during creation or updates" (Lambda Developer Guide, "Process Amazon
// Kinesis Data Streams records with Lambda"); here it does not. That Lambda delivers records
// twice on its own ("Lambda event source mappings process each event at least once", Using)
// is for tests to bring about, with a second poller or a restart.
package eventsource
