package delivery

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/oncebox/oncebox/internal/aws/awsconfig/sdkconfig"
	"github.com/oncebox/oncebox/internal/cli"
	"github.com/oncebox/oncebox/pkg/sink/objectsink"
)

type objectsCommand struct {
	List   objectsListCommand   `cmd:"" help:"List objects in the order of their records."`
	Verify objectsVerifyCommand `cmd:"" help:"Check that no object is missing, doubled or damaged."`
}

// objectsArgs select the objects to read.
type objectsArgs struct {
	Place  string `arg:"" help:"The sink of the dedupe function: s3://BUCKET/PREFIX." placeholder:"s3://BUCKET/PREFIX"`
	Scope  string `help:"Only the objects of this scope." placeholder:"NAME"`
	Stream string `help:"Only the objects of the stream of this name." placeholder:"NAME"`
	Shard  string `help:"Only the objects of this shard." placeholder:"ID"`
}

func (o objectsArgs) filter() objectsink.Filter {
	return objectsink.Filter{Scope: o.Scope, Stream: o.Stream, Shard: o.Shard}
}

func (o objectsArgs) open(ctx context.Context) (objectsink.Storage, error) {
	bucket, prefix, err := objectsink.ParseSetting(o.Place)
	if err != nil {
		return nil, cli.BadUsage(err, "It is the value of ONCEBOX_SINK.")
	}
	client, err := objectsink.NewS3Client(ctx, sdkconfig.Load)
	if err != nil {
		return nil, err
	}
	return objectsink.NewBucket(client, bucket, prefix), nil
}

type objectsListCommand struct{ objectsArgs }

func (objectsListCommand) Help() string {
	return `Prints one line for each object, shard by shard: the key below the prefix, the first and the last sequence number
that it has handled, its records and its uncompressed bytes, and who wrote it. An object of a redriven dead letter has
no sequence numbers. It asks S3 for the metadata of each object.

With --output json each line is a JSON object.

Examples:
  oncebox objects list s3://lake/events
  oncebox objects list s3://lake/events --stream orders --shard shardId-000000000000`
}

func (c objectsListCommand) Run(ctx context.Context, a *cli.App) error {
	storage, err := c.open(ctx)
	if err != nil {
		return err
	}
	wrong := 0
	err = objectsink.List(ctx, storage, c.filter(), func(e objectsink.Entry, err error) error {
		line := objectLine{Key: e.Key, Object: e.Object, Letter: e.Letter}
		text := fmt.Sprintf("%s\t%s\t%s\t%d\t%d\t%s", e.Key, cmp.Or(e.First, "-"), cmp.Or(e.Last, "-"),
			e.Records, e.Bytes, cmp.Or(e.Writer, "-"))
		if err != nil {
			wrong++
			line.Problem = err.Error()
			text += "\t" + line.Problem
		}
		return a.Print(line, text)
	})
	if err == nil && wrong > 0 {
		err = fmt.Errorf("%w: objects that are not of a sink: %d", cli.ErrLook, wrong)
	}
	return err
}

// objectLine is an object in results.
type objectLine struct {
	Key string `json:"key"`
	objectsink.Object
	Letter  bool   `json:"letter,omitempty"`
	Problem string `json:"problem,omitempty"`
}

type objectsVerifyCommand struct{ objectsArgs }

func (objectsVerifyCommand) Help() string {
	return `Reads all objects and checks the chain of each shard. Each object must begin where the one before it ends,
so that no object is missing and there is no second branch. Each object must be readable, and must have as many records
and bytes as its metadata says.

Prints each problem, and then what was read. A chain may begin late, if its first objects were moved. It may run while
the function writes. It changes nothing. The exit code is 4 if there is a problem.

Examples:
  oncebox objects verify s3://lake/events
  oncebox objects verify s3://lake/events --scope orders`
}

func (c objectsVerifyCommand) Run(ctx context.Context, a *cli.App) error {
	storage, err := c.open(ctx)
	if err != nil {
		return err
	}
	var problems []objectsink.Problem
	v, err := objectsink.Verify(ctx, storage, c.filter(), func(p objectsink.Problem) { problems = append(problems, p) })
	if err != nil {
		return err
	}
	report := objectsReport{v, problems}
	if err := a.Print(report, report.String()); err != nil {
		return err
	}
	if len(problems) > 0 {
		return fmt.Errorf("%w: problems: %d", cli.ErrLook, len(problems))
	}
	return nil
}

// objectsReport is the result of objects verify.
type objectsReport struct {
	objectsink.Verified
	Problems []objectsink.Problem `json:"problems,omitempty"`
}

func (r objectsReport) String() string {
	var b strings.Builder
	for _, p := range r.Problems {
		fmt.Fprintf(&b, "%s: %s\n", p.Key, p.What)
	}
	fmt.Fprintf(&b, "shards %d, objects %d, records %d, bytes %d, late %d, dead letters %d, chains with moved objects %d",
		r.Shards, r.Objects, r.Records, r.Bytes, r.Late, r.Letters, r.Begun)
	return b.String()
}
