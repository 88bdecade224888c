// Package sam tests scripts/invoke and scripts/sam, which give single events to the built functions in emulators of
// Lambda.
package sam
