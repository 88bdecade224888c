package main

import (
	"bytes"

	"github.com/CycloneDX/cyclonedx-go"
)

// sbom is the software bill of materials of a release, in the JSON of CycloneDX. It has no time
// and no random serial number, so that it can be built again.
func (c contents) sbom(version string) ([]byte, error) {
	bom := cyclonedx.NewBOM()
	whole := application("oncebox-release", version)
	bom.Metadata = &cyclonedx.Metadata{Component: &whole}
	var components []cyclonedx.Component
	var relations []cyclonedx.Dependency
	var names []string
	for _, p := range programs {
		components = append(components, application(p.name, version))
		names = append(names, p.name)
		var modules []string
		for _, m := range c.programs[p.name] {
			modules = append(modules, m.purl())
		}
		relations = append(relations, cyclonedx.Dependency{Ref: p.name, Dependencies: &modules})
	}
	for _, m := range c.modules {
		components = append(components, m.component())
	}
	relations = append(relations, cyclonedx.Dependency{Ref: whole.BOMRef, Dependencies: &names})
	bom.Components, bom.Dependencies = &components, &relations
	var out bytes.Buffer
	err := cyclonedx.NewBOMEncoder(&out, cyclonedx.BOMFileFormatJSON).SetPretty(true).SetEscapeHTML(false).Encode(bom)
	return out.Bytes(), err
}

func application(name, version string) cyclonedx.Component {
	return cyclonedx.Component{
		Type: cyclonedx.ComponentTypeApplication, BOMRef: name, Name: name, Version: version,
		Licenses: licences("Apache-2.0"),
	}
}

func (m *module) component() cyclonedx.Component {
	return cyclonedx.Component{
		Type: cyclonedx.ComponentTypeLibrary, BOMRef: m.purl(), Name: m.path, Version: m.version,
		PackageURL: m.purl(), Licenses: licences(m.ids()...),
	}
}

// purl is the package URL of a module.
func (m *module) purl() string { return "pkg:golang/" + m.path + "@" + m.version }

func licences(ids ...string) *cyclonedx.Licenses {
	var all cyclonedx.Licenses
	for _, id := range ids {
		all = append(all, cyclonedx.LicenseChoice{License: &cyclonedx.License{ID: id}})
	}
	return &all
}
