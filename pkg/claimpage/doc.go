// Package claimpage is the page on which a visitor gets an item of a campaign: one HTML page, a style sheet and a script,
// without a build step. Package claimapi serves it at /c/{campaign}.
//
// The script defines the element <oncebox-claim>. The page consists of it, and other sites can embed it. It calls the
// claim API at the same origin, and takes the campaign from its own address.
//
// A [Page] has the settings of one campaign's page: texts by language, a style sheet and a logo. [Page.Asset] makes
// the files. A text is never HTML. The page allows only its own scripts and styles, and loads nothing from other
// sites, except the widget of a [Challenge].
package claimpage
