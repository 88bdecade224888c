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

// ErrExists says that another run has created the object.
var ErrExists = errors.New("there is an object already")

// runMember is the member of an object's metadata that names the run that has created the object.
const runMember = "oncebox-run"

// CreatedBy returns the run that has created an object, or "" if the object names no run. It returns fs.ErrNotExist
// if the object does not exist.
func (s *Store) CreatedBy(ctx context.Context, at Place) (run string, err error) {
	out, err := s.head(ctx, at)
	if err != nil {
		return "", err
	}
	return out.Metadata[runMember], nil
}

// Create makes an object from a file, unless the object exists. It is safe to repeat: if another process of the same
// run has created the object, Create succeeds. If another run has created it, Create returns ErrExists.
//
// Any error may mean that the answer was lost. So the existing object decides, and not the error.
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
	defer func() { _ = file.Close() }() // the file was only read
	_, err = transfermanager.New(s.client).UploadObject(ctx, &transfermanager.UploadObjectInput{
		Bucket: &at.Bucket, Key: &at.Key, Body: file, IfNoneMatch: aws.String("*"),
		Metadata: map[string]string{runMember: run},
	})
	return err
}
