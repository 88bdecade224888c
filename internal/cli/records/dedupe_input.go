package records

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/oncebox/oncebox/internal/aws/s3files"
	"github.com/oncebox/oncebox/internal/cli"
	"github.com/oncebox/oncebox/internal/records/offline"
)

// inputs opens the inputs. A run reads them twice, and again when it continues. So stdin and pipes are copied to
// temporary files, unless they are read only once. Call remove after use, even after an error.
func (s *sources) inputs(ctx context.Context, all []source, stdin io.Reader, once bool) (
	inputs []offline.Input, remove func(), err error,
) {
	var temporary []string
	remove = func() {
		for _, path := range temporary {
			_ = os.Remove(path)
		}
	}
	for _, from := range all {
		if from.object != nil {
			inputs = append(inputs, s.objectInput(ctx, *from.object))
			continue
		}
		in, stream, err := openInput(from.name, stdin)
		switch {
		case err != nil || stream == nil:
		case once:
			in = streamInput(ctx, from.name, stream)
		default:
			var path string
			in, path, err = spoolInput(ctx, from.name, stream)
			temporary = append(temporary, path)
		}
		if err != nil {
			return nil, remove, err
		}
		inputs = append(inputs, in)
	}
	return inputs, remove, nil
}

// setRecords says where the records are in the inputs.
func setRecords(inputs []offline.Input, records offline.Records, format string) error {
	if records != offline.OneALine && records != offline.DeadLetters && format != "json" {
		return cli.BadUsage(
			fmt.Errorf("--records %s is for JSON, and --format is %s", records, format), "Leave out --records.",
		)
	}
	for i := range inputs {
		inputs[i].Records = records
	}
	return nil
}

func (s *sources) objectInput(ctx context.Context, o s3files.Object) offline.Input {
	return offline.Input{Name: o.String(), Size: o.Size, Open: func() (io.ReadCloser, error) {
		return s.s3.Read(ctx, o), nil
	}}
}

// openInput returns a regular file as an input. It returns anything else, such as a pipe, as a stream.
func openInput(name string, stdin io.Reader) (in offline.Input, stream io.Reader, err error) {
	if name == "-" {
		return in, stdin, nil
	}
	file, err := os.Open(name)
	if err != nil {
		return in, nil, cli.BadUsage(cli.FileError(name, err), "")
	}
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		return in, file, nil
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return in, nil, cli.BadUsage(err, "")
	}
	in, err = fileInput(name, name)
	return in, nil, err
}

func fileInput(name, path string) (offline.Input, error) {
	info, err := os.Stat(path)
	if err != nil {
		return offline.Input{}, err
	}
	return offline.Input{Name: name, Size: info.Size(), Open: func() (io.ReadCloser, error) { return os.Open(path) }}, nil
}

// spoolInput copies a stream to a temporary file.
func spoolInput(ctx context.Context, name string, stream io.Reader) (in offline.Input, path string, err error) {
	if path, err = cli.Spool(ctx, stream); err != nil {
		return in, path, fmt.Errorf("copy %s to a temporary file: %w", name, err)
	}
	in, err = fileInput(name, path)
	return in, path, err
}

// streamInput reads a stream, once.
func streamInput(ctx context.Context, name string, stream io.Reader) offline.Input {
	return offline.Input{Name: name, Size: offline.Unknown, Open: func() (io.ReadCloser, error) {
		return cli.Interruptible(ctx, stream), nil
	}}
}
