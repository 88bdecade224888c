// Package page holds the tests of the claim page in a real browser.
package page
