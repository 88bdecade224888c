package s3files

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/feature/s3/transfermanager"
)

// ErrExists says that there is an object, and that another run has created it.
var ErrExists = errors.New("there is an object already")

// runMember is the member of an object's metadata that says which run has created it.
const runMember = "oncebox-run"

// CreatedBy returns the run that has created an object: "" if that is none, or if nothing says so. The error is
// fs.ErrNotExist if there is no object.
func (s *Store) CreatedBy(ctx context.Context, at Place) (run string, err error) {
	out, err := s.head(ctx, at)
	if err != nil {
		return "", err
	}
	return out.Metadata[runMember], nil
}

// Create makes an object of a file, unless there is one. It is safe to repeat: an object of the same run counts as this
// one, whichever process has created it. Otherwise the error is ErrExists.
//
// Any error may mean that the answer was lost. So the object that is there decides, and not the error.
func (s *Store) Create(ctx context.Context, at Place, path, run string) error {
	there, err := s.CreatedBy(ctx, at)
	if errors.Is(err, fs.ErrNotExist) {
		if err = s.upload(ctx, at, path, run); err == nil {
			return nil
		}
		var after error
		if there, after = s.CreatedBy(ctx, at); after != nil {
			return failed(at, err)
		}
	} else if err != nil {
		return err
	}
	if there != run {
		return fmt.Errorf("%s: %w", at, ErrExists)
	}
	return nil
}

func (s *Store) upload(ctx context.Context, at Place, path, run string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }() // it was only read from
	_, err = transfermanager.New(s.client).UploadObject(ctx, &transfermanager.UploadObjectInput{
		Bucket: &at.Bucket, Key: &at.Key, Body: file, IfNoneMatch: aws.String("*"),
		Metadata: map[string]string{runMember: run},
	})
	return err
}
