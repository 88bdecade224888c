// Package valkeystore is a ledger.
package valkeystore
