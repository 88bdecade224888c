package offline

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"slices"
)

// digest identifies the run. It is the SHA-256 of the inputs' contents, in order, and of the options that change the
// result. The names of inputs and outputs, and their compression, are not part of it: the same work under other names
// is the same run. After digest, the sizes of the contents are known.
//
// It costs one more reading of the inputs. The sizes and times of the files, or samples of them, would be cheaper,
// but they can be equal for two different files.
func (r *run) digest(ctx context.Context) (string, error) {
	h := sha256.New()
	r.digestOptions(h)
	var done int64
	for i := range r.Inputs {
		in := &r.Inputs[i]
		sum, size, err := in.digest(ctx, func(n int64) { r.progress(passReading, done+n) })
		if err != nil {
			return "", err
		}
		_, _ = h.Write(sum) // a hash never fails
		in.content = size
		done += in.Size
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// runVersion is part of the digest. It changes with the meaning of a saved run. So a run of another version is never
// continued: it counts as another run.
const runVersion = 3

func (r *run) digestOptions(h hash.Hash) {
	fmt.Fprintf(h, "oncebox run %d %s %d %d %t %t %t %s\n", runVersion, r.Format.Settings(),
		r.Retention.Window, r.Retention.Horizon, r.Retention.ForGood, r.PassNatural, r.PassSynthetic, r.IDs)
	if slices.ContainsFunc(r.Inputs, func(in Input) bool { return in.Records == DeadLetters }) {
		fmt.Fprintln(h, "dead letters")
	}
	if r.Replaces != "" {
		fmt.Fprintf(h, "replaces %+q\n", r.Replaces)
	}
}

// digest returns the SHA-256 and the size of an input's content. It tells progress how many bytes of the input it has
// read.
func (in Input) digest(ctx context.Context, progress func(int64)) (sum []byte, size int64, err error) {
	file, err := in.open(ctx)
	if err != nil {
		return nil, 0, err
	}
	defer func() { _ = file.Close() }() // the file was only read
	h := sha256.New()
	const part = 8 << 20
	for {
		n, err := io.CopyN(h, file, part)
		size += n
		progress(in.Size - file.raw.left)
		if errors.Is(err, io.EOF) {
			return h.Sum(nil), size, nil
		}
		if err != nil {
			return nil, 0, err
		}
	}
}
