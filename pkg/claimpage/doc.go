// Package claimpage is the page on which a visitor gets an item of a campaign: one HTML page, a style sheet and a script,
// without a build step. Package claimapi serves it at /c/{campaign}.
//
// The script defines the element <oncebox-claim>, which the page is made of and other sites can embed. It asks the claim
// API that is beside it, and takes the campaign from its own address.
//
// A [Page] is what a campaign has of its own: texts by language, a style sheet and a logo. [Page.Asset] makes the files.
// A text is never HTML. The page allows no script and no style but its own files, and loads nothing from elsewhere, except
// for the widget of a [Challenge].
package claimpage
