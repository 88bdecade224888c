package ndjsonsink

// File is the part of a file that a sink uses.
type File = file

// Wrap puts a file between the sink and its file.
func (s *Sink) Wrap(wrap func(File) File) { s.file = wrap(s.file) }
