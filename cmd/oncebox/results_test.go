package main

// errorJSON is an error with --output json.
type errorJSON struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Hint    string `json:"hint"`
	Exit    int    `json:"exit"`
}

// keyJSON is the result of making a key. It never has the private key.
type keyJSON struct {
	PrivateKeyFile string `json:"private_key_file"`
	PublicKeyFile  string `json:"public_key_file"`
	PublicKey      string `json:"public_key"`
	KeyID          string `json:"key_id"`
}

// linkJSON is a link with --output json, one a line.
type linkJSON struct {
	Line     int64  `json:"line"`
	Claimant string `json:"claimant"`
	Link     string `json:"link"`
}
