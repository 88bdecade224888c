// Package sam holds the tests of scripts/invoke and scripts/sam: of single events
// given to the built functions in emulators of Lambda.
package sam
