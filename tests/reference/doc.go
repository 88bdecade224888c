// Package reference compares the readers of records with readers that others wrote: protobuf's own package, gjson, and
// Snowplow's SDK. It has a module of its own for them.
package reference
