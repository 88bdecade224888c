package links

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/oncebox/oncebox/internal/cli"
	"github.com/oncebox/oncebox/pkg/claimlink"
)

type linksCommand struct {
	Keygen linksKeygen `cmd:"" help:"Make a key that signs personal links."`
	Make   linksMake   `cmd:"" help:"Make a personal link for each customer of a CSV file."`
}

// These values of ONCEBOX_CLAIMANT_FROM need no API Gateway. With FromLink the function accepts links.
const (
	FromBody = "body"
	FromLink = "link"
)

type linksKeygen struct {
	File string `arg:"" help:"Where to write the private key. The public key goes into FILE.pub."`
}

func (linksKeygen) Help() string {
	return `Writes two files, and never writes over an existing one.

  FILE      the private key, which only you can read. A person who has it can make links for any customer: keep it
            where you keep passwords, and out of the repository.
  FILE.pub  the public key. The claim function needs only this file, in ONCEBOX_LINK_KEYS.

Examples:
  oncebox links keygen link.key
  oncebox local --link-keys link.key.pub

In the settings file of a stack, write "auth: link" and "link-keys: file:link.key.pub" below "claims:".`
}

// keyJSON is the result of making a key. It never has the private key.
type keyJSON struct {
	PrivateKeyFile string `json:"private_key_file"`
	PublicKeyFile  string `json:"public_key_file"`
	PublicKey      string `json:"public_key"`
	KeyID          string `json:"key_id"`
}

func (c linksKeygen) Run(a *cli.App) error {
	key, err := claimlink.NewKey()
	if err != nil {
		return err
	}
	private, err := key.PEM()
	if err != nil {
		return err
	}
	public, err := key.Public()
	if err != nil {
		return err
	}
	publicFile := c.File + ".pub"
	if err := createKeyFile(c.File, private, 0o600); err != nil {
		return err
	}
	if err := createKeyFile(publicFile, []byte(public+"\n"), 0o644); err != nil {
		return errors.Join(err, os.Remove(c.File)) // this key was not shown yet
	}
	return a.Print(keyJSON{c.File, publicFile, public, key.ID()},
		fmt.Sprintf("made %s, which is secret, and %s for the claim function (key id %s)", c.File, publicFile, key.ID()))
}

// createKeyFile writes a file that must not exist yet.
func createKeyFile(path string, content []byte, mode os.FileMode) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if errors.Is(err, os.ErrExist) {
		return cli.BadUsage(fmt.Errorf("%s exists, and is not written over", path), "Choose another name for the key.")
	}
	if err != nil {
		return cli.BadUsage(cli.FileError(path, err), "")
	}
	_, err = file.Write(content)
	if err = errors.Join(err, file.Close()); err != nil {
		return errors.Join(cli.FileError(path, err), os.Remove(path))
	}
	return nil
}

// ReadPrivateKey reads the file that keygen wrote.
func ReadPrivateKey(path string) (*claimlink.PrivateKey, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, cli.BadUsage(cli.FileError(path, err), "`oncebox links keygen FILE` makes a key.")
	}
	key, err := claimlink.ParsePrivateKey(text)
	if err != nil {
		return nil, BadKeys(path, err)
	}
	return key, nil
}

// BadKeys returns an error that names the file without a usable key.
func BadKeys(path string, err error) error {
	return cli.BadUsage(
		fmt.Errorf("%s: %s", path, strings.TrimPrefix(err.Error(), "claimlink: ")),
		"`oncebox links keygen FILE` writes FILE, the private key that makes links, and FILE.pub, the public key.",
	)
}
