package ndjsonsink

// File is what a sink needs of its file.
type File = file

// Wrap puts a file between the sink and its file.
func (s *Sink) Wrap(wrap func(File) File) { s.file = wrap(s.file) }
