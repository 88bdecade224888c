package kinesishandler

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/oncebox/oncebox/pkg/deadletter"
	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/format"
	"github.com/oncebox/oncebox/pkg/sink/objectsink"
)

// Limits of the size of an object. The function has one object in memory, besides the records of its batch.
const (
	smallestObject = 64 << 10
	largestObject  = 1 << 30
)

// bucket reads the place of a bucket sink.
func (p parser) bucket(text, allowed string) SinkSetting {
	bucket, prefix, err := objectsink.ParseSetting(text)
	if err != nil {
		p.Wrong(varSink, "does not name a bucket and a prefix for objects",
			allowed+`, where no part of PREFIX begins with "_"`)
	}
	return SinkSetting{Bucket: bucket, Prefix: prefix}
}

// objects reads how records of a format become objects.
func (p parser) objects(f dedupe.Format) objectsink.Options {
	formats := []objectsink.Format{objectsink.NDJSON, objectsink.Raw}
	if objectFormat(f) == objectsink.Raw {
		slices.Reverse(formats)
	}
	chosen := choice(p, varSinkObjectFormat, formats...)
	if neverNDJSON(f, chosen) {
		p.Wrong(varSinkObjectFormat, "is ndjson, but with "+varFormat+"=snowplow records are lines of text, and each would be "+
			"a dead letter", "raw, which is the default then")
	}
	return objectsink.Options{
		Encoding: objectsink.Encoding{
			Format: chosen,
			Compression: choice(p, varSinkCompression, objectsink.Gzip, objectsink.Zstd,
				objectsink.Uncompressed),
		},
		ObjectSize: int64(p.Size(varSinkObjectSize, objectsink.DefaultObjectSize, smallestObject, largestObject,
			"64KiB to 1024MiB")),
	}
}

// objectFormat returns the format of objects if none is set. It follows the format of the records.
func objectFormat(records dedupe.Format) objectsink.Format {
	switch records.(type) {
	case *format.Snowplow, format.Raw:
		return objectsink.Raw
	}
	return objectsink.NDJSON
}

// neverNDJSON reports whether no record of a format can be in an object of its format.
func neverNDJSON(records dedupe.Format, objects objectsink.Format) bool {
	_, snowplow := records.(*format.Snowplow)
	return snowplow && objects == objectsink.NDJSON
}

var errNeverNDJSON = errors.New("kinesishandler: SinkObjects.Format is ndjson, but enriched events of Snowplow are lines " +
	"of text, and each would be a dead letter; leave it empty, or choose raw")

// choice reads one of a few words. The first one is the default.
func choice[T ~string](p parser, name string, all ...T) T {
	text := T(p.Text(name))
	switch {
	case text == "":
		return all[0]
	case slices.Contains(all, text):
		return text
	}
	words := make([]string, len(all))
	for i, word := range all {
		words[i] = string(word)
	}
	p.Wrong(name, "is not a known choice", strings.Join(words[:len(words)-1], ", ")+" or "+words[len(words)-1])
	return all[0]
}

// checkObjects refuses settings that do not fit a bucket sink.
func (p parser) checkObjects(o Options) {
	if o.Sink.Bucket == "" {
		return
	}
	if o.NoAcks {
		p.Wrong(varAcks, "is off, but objects say which records are done, which cannot be switched off", "on")
	}
	letters, err := deadletter.ParseSetting(o.DeadLetterStore)
	if err == nil && letters.Bucket == o.Sink.Bucket &&
		(strings.HasPrefix(letters.Prefix, o.Sink.Prefix) || strings.HasPrefix(o.Sink.Prefix, letters.Prefix)) {
		p.Wrong(varDeadLetters, "is inside of "+varSink+", or the other way round: readers would mix the two",
			"prefixes of which neither begins with the other")
	}
}

func openObjects(
	ctx context.Context, load func(context.Context) (aws.Config, error), o Options,
) (dedupe.ObjectSink, error) {
	client, err := objectsink.NewS3Client(ctx, load)
	if err != nil {
		return nil, err
	}
	objects := o.SinkObjects
	objects.Format = cmp.Or(objects.Format, objectFormat(o.Format))
	if neverNDJSON(o.Format, objects.Format) {
		return nil, errNeverNDJSON
	}
	return objectsink.New(objectsink.NewBucket(client, o.Sink.Bucket, o.Sink.Prefix), objects)
}
