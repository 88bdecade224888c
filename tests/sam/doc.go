// Package sam tests scripts/invoke and scripts/sam, which send single events to the built functions in emulators of
// Lambda.
package sam
