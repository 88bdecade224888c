package records

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"

	"github.com/oncebox/oncebox/internal/aws/s3files"
	"github.com/oncebox/oncebox/internal/cli"
	"github.com/oncebox/oncebox/internal/records/offline"
	"github.com/oncebox/oncebox/internal/shared/address"
	"github.com/oncebox/oncebox/internal/shared/settings"
	"github.com/oncebox/oncebox/pkg/recordhandler"
)

// output is the destination of survivors.
type output struct {
	name   string         // as the user gave it; "" is stdout
	file   string         // the file that a run writes to; with an object it is in the working folder until the run ends
	object *s3files.Place // nil unless the output is an object of S3
}

// output returns the output that --out or --sink names.
func (c *dedupeCommand) output() (output, error) {
	if c.Sink == "" {
		return outputOf(c.Out)
	}
	sink, err := recordhandler.ParseSink(c.Sink)
	p := settings.NewParserOf(nil)
	p.WrongAddress("--sink", err)
	if err := p.Err(); err != nil {
		return output{}, cli.BadUsage(err, "")
	}
	if sink.File == "" {
		scheme := address.Scheme(c.Sink)
		return output{}, cli.BadUsage(
			fmt.Errorf("--sink %s: a stopped run is closed at its last saved line, and its later records are decided again. What it "+
				"has sent after that line cannot be taken back, and would come twice", scheme),
			cmp.Or(insteadOfSinks[scheme], "Use --out FILE, and send its lines when the run has finished."),
		)
	}
	if offline.CompressionOf(sink.File) != offline.NotCompressed {
		return output{}, cli.BadUsage(fmt.Errorf("--sink %s: the function does not compress such a file", c.Sink),
			"For a compressed file use --out "+sink.File+".")
	}
	return output{name: sink.File, file: sink.File}, nil
}

// insteadOfSinks says what to use in the place of some sinks.
var insteadOfSinks = map[string]string{
	"dynamodb": "Use --out FILE, and send its lines to a function with this sink when the run has finished: it writes each once.",
	"s3":       "Use --out s3://BUCKET/KEY, which is made when the run has finished, or --publish NAME with a file for each run.",
}

func outputOf(name string) (output, error) {
	if name == "" || name == "-" {
		return output{}, nil
	}
	if !strings.HasPrefix(name, s3files.Scheme) {
		return output{name: name, file: name}, nil
	}
	at, err := s3files.ParsePlace(name)
	if err == nil && at.IsPrefix() {
		err = fmt.Errorf("--out %s: name one object, as in %s", name, s3files.Place{Bucket: at.Bucket, Key: at.Key + "unique.ndjson.gz"})
	}
	if err != nil {
		return output{}, cli.BadUsage(err, "")
	}
	return output{name: name, file: uploadFile(at), object: &at}, nil
}

// uploadFile returns the file that is uploaded to an object. The same object always has the same file, so that a
// repeated run finds it.
func uploadFile(at s3files.Place) string {
	sum := sha256.Sum256([]byte(at.String()))
	const most = 100 // bytes of the name, because a key may be longer than a file's name can be
	base := path.Base(at.Key)
	return base[max(0, len(base)-most):] + "." + hex.EncodeToString(sum[:4]) + ".upload"
}

// deadLetters is the default of --dead-letters.
func (o output) deadLetters() string {
	const end = ".dead.ndjson"
	switch {
	case o.object != nil:
		return path.Base(o.object.Key) + end
	case o.file == "":
		return deadLettersOfStdout
	}
	return o.file + end
}

// addTo sets the output of a job. It refuses an existing object now, and not after hours, unless the unfinished run
// has created it, whose FILE.run exists.
func (o output) addTo(ctx context.Context, job *offline.Job, s *sources) error {
	job.Out, job.Compression = o.file, offline.CompressionOf(o.name)
	if o.object == nil {
		return nil
	}
	store, err := s.store(ctx)
	if err != nil {
		return err
	}
	job.Place = o.name
	job.Upload = func(ctx context.Context, run string) error {
		err := store.Create(ctx, *o.object, o.file, run)
		if errors.Is(err, s3files.ErrExists) {
			return fmt.Errorf("%w, which another run or program has made. The output is in %s: copy it to another key, "+
				"or delete the object", err, o.file)
		}
		return err
	}
	_, unfinished := os.Stat(o.file + ".run")
	_, err = store.CreatedBy(ctx, *o.object)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err == nil && unfinished != nil:
		return cli.BadUsage(
			fmt.Errorf("%s exists: it is the output of a finished run, or something else", o.name),
			"Choose another key, or delete the object.",
		)
	}
	return err
}
