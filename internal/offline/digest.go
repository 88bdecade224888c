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

// digest names the run: the SHA-256 of the inputs' contents, in order, and of
// the options that a result depends on. Names of files are no part of it, nor
// is where the results go: the same work under another name is the same run.
//
// It costs one more reading of the inputs. Sizes and times of files, or samples
// of them, would be cheaper and could take another file for this one.
func (r *run) digest(ctx context.Context) (string, error) {
	h := sha256.New()
	r.digestOptions(h)
	var done int64
	for _, in := range r.Inputs {
		sum, err := in.digest(ctx, func(n int64) { r.progress("reading", done+n) })
		if err != nil {
			return "", err
		}
		_, _ = h.Write(sum) // a hash never fails
		done += in.Size
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// digestOptions writes the options in a form that is the same in every version
// of Go: quoted, in ASCII.
func (r *run) digestOptions(h hash.Hash) {
	f := r.Format
	fmt.Fprintf(h, "oncebox run 1 %+q %+q %+q %+q %+q %+q %d %d %t %t %t\n",
		f.IDPath, f.FingerprintPath, f.OwnerPath, f.ContextsPath, f.TimePath, slices.Sorted(slices.Values(f.Volatile)),
		r.Retention.Window, r.Retention.Horizon, r.Retention.ForGood, r.PassNatural, r.PassSynthetic)
}

// digest is the SHA-256 of an input's content; progress is given the bytes read.
func (in Input) digest(ctx context.Context, progress func(int64)) ([]byte, error) {
	file, err := in.open(ctx)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	h := sha256.New()
	const part = 8 << 20
	for read := int64(0); ; progress(read) {
		n, err := io.CopyN(h, file, part)
		read += n
		if errors.Is(err, io.EOF) {
			return h.Sum(nil), nil
		}
		if err != nil {
			return nil, err
		}
	}
}
