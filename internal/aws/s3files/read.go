package s3files

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/oncebox/oncebox/internal/shared/pause"
)

// A reading starts again up to this often without a byte in between, with pauses.
const (
	maxStuck   = 5
	firstPause = 200 * time.Millisecond
	mostPause  = 5 * time.Second
)

// Read reads an object from its beginning. It fails with ErrChanged if the object has changed since it was found.
func (s *Store) Read(ctx context.Context, o Object) io.ReadCloser {
	return &reading{ctx: ctx, client: s.client, object: o}
}

// reading reads an object. After a connection has broken it continues on another one.
type reading struct {
	ctx    context.Context
	client *s3.Client
	object Object
	body   io.ReadCloser // nil until the first Read, and after a failure
	at     int64         // the number of bytes read
	stuck  int           // the number of failures since the last byte
}

func (r *reading) Read(b []byte) (n int, err error) {
	for {
		n, err = r.read(b)
		r.at += int64(n)
		if n > 0 {
			r.stuck = 0
		}
		switch {
		case err == nil, errors.Is(err, io.EOF) && r.at == r.object.Size:
			return n, err
		case errors.Is(err, ErrChanged), r.ctx.Err() != nil, r.body == nil: // r.body is nil if S3 has refused
			return n, err
		case r.at == r.object.Size: // the checksum is wrong
			return n, failed(r.object.Place, err)
		}
		_ = r.Close() // it has failed already
		if n > 0 {
			return n, nil
		}
		if r.stuck++; r.stuck > maxStuck {
			return 0, fmt.Errorf("%s: the connection breaks again and again at byte %d: %w", r.object.Place, r.at, err)
		}
		if err := pause.Growing(r.ctx, r.stuck, firstPause, mostPause); err != nil {
			return 0, err
		}
	}
}

func (r *reading) read(b []byte) (int, error) {
	if r.at == r.object.Size {
		return 0, io.EOF
	}
	if r.body == nil {
		if err := r.open(); err != nil {
			return 0, err
		}
	}
	return r.body.Read(b)
}

func (r *reading) open() error {
	in := &s3.GetObjectInput{Bucket: &r.object.Bucket, Key: &r.object.Key, IfMatch: &r.object.etag}
	if r.at > 0 {
		in.Range = aws.String(fmt.Sprintf("bytes=%d-", r.at))
	}
	out, err := r.client.GetObject(r.ctx, in)
	switch {
	case hasStatus(err, http.StatusPreconditionFailed), hasStatus(err, http.StatusNotFound):
		return r.changed()
	case err != nil:
		return failed(r.object.Place, err)
	}
	r.body = out.Body
	if aws.ToString(out.ETag) != r.object.etag || aws.ToInt64(out.ContentLength) != r.object.Size-r.at {
		return r.changed()
	}
	return nil
}

func (r *reading) changed() error {
	return fmt.Errorf("%s was replaced or deleted while it was read: %w", r.object.Place, ErrChanged)
}

func (r *reading) Close() error {
	if r.body == nil {
		return nil
	}
	body := r.body
	r.body = nil
	return body.Close()
}
