// Package archtest checks the structure of the module: which package may import
// which, who may start a process, and that every package says what it is for.
//
// It reads source files instead of asking go list, so that files for all
// platforms are checked on each of them.
package archtest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

func TestModule(t *testing.T) {
	violations, packages, err := check("../..")
	if err != nil {
		t.Fatal(err)
	}
	// A walk that sees nothing finds nothing wrong.
	if !slices.Contains(packages, "seam") || !slices.Contains(packages, "internal/archtest") {
		t.Fatalf("packages = %q, want seam and internal/archtest among them", packages)
	}
	for _, v := range violations {
		t.Error(v)
	}
}

// TestPlanted checks the checks: testdata/planted breaks each rule, and says
// where in comments of the form // want "part of the message".
func TestPlanted(t *testing.T) {
	const root = "testdata/planted"
	violations, _, err := check(root)
	if err != nil {
		t.Fatal(err)
	}
	wants, err := readWants(root)
	if err != nil {
		t.Fatal(err)
	}
	if len(wants) == 0 {
		t.Fatal("no want comments found")
	}
	for _, v := range violations {
		i := slices.IndexFunc(wants, func(w violation) bool {
			return w.file == v.file && w.line == v.line && strings.Contains(v.text, w.text)
		})
		if i < 0 {
			t.Errorf("not wanted: %v", v)
			continue
		}
		wants = slices.Delete(wants, i, i+1)
	}
	for _, w := range wants {
		t.Errorf("not found: %v", w)
	}
}

func TestEveryLayerHasAReason(t *testing.T) {
	for _, l := range append(slices.Clone(layers), forTests) {
		if l.reason == "" {
			t.Errorf("layer %q has no reason", l.path)
		}
	}
}

type violation struct {
	file string // relative to the module, with slashes
	line int
	text string
}

func (v violation) String() string { return fmt.Sprintf("%s:%d: %s", v.file, v.line, v.text) }

// check returns the violations in the module at root, and its packages.
func check(root string) (violations []violation, packages []string, err error) {
	fset := token.NewFileSet()
	files := make(map[string][]*ast.File) // by package, in the order of their names
	err = filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			return enterDir(root, name)
		}
		if filepath.Ext(name) != ".go" {
			return nil
		}
		rel, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		src, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		file, err := parser.ParseFile(fset, rel, src, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		files[path.Dir(rel)] = append(files[path.Dir(rel)], file)
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	for pkg, files := range files {
		packages = append(packages, pkg)
		c := checker{fset: fset, pkg: pkg}
		c.doc(files)
		for _, file := range files {
			c.imports(file)
			c.starts(file)
		}
		violations = append(violations, c.violations...)
	}
	slices.SortFunc(violations, func(a, b violation) int {
		if a.file != b.file {
			return strings.Compare(a.file, b.file)
		}
		return a.line - b.line
	})
	return violations, packages, nil
}

// enterDir skips what the go command skips: testdata, hidden directories, other modules.
func enterDir(root, dir string) error {
	if dir == root {
		return nil
	}
	base := filepath.Base(dir)
	if base == "testdata" || base == "vendor" || strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_") {
		return filepath.SkipDir
	}
	if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
		return filepath.SkipDir
	}
	return nil
}

// A checker checks one package.
type checker struct {
	fset       *token.FileSet
	pkg        string
	violations []violation
}

func (c *checker) report(pos token.Pos, format string, args ...any) {
	p := c.fset.Position(pos)
	c.violations = append(c.violations, violation{p.Filename, p.Line, fmt.Sprintf(format, args...)})
}

func (c *checker) filename(file *ast.File) string { return c.fset.Position(file.Package).Filename }

func (c *checker) isTest(file *ast.File) bool {
	return strings.HasSuffix(c.filename(file), "_test.go")
}

// doc checks that one file carries the package's documentation: one that is
// not a test, where there is any.
func (c *checker) doc(files []*ast.File) {
	if code := slices.DeleteFunc(slices.Clone(files), c.isTest); len(code) > 0 {
		files = code
	}
	if !slices.ContainsFunc(files, func(f *ast.File) bool { return strings.TrimSpace(f.Doc.Text()) != "" }) {
		c.report(files[0].Package, "package %s has no documentation: each says what it is for", c.pkg)
	}
}

func (c *checker) imports(file *ast.File) {
	layer, ok := layerOf(c.pkg)
	if !ok {
		c.report(file.Package, "package %s belongs to no layer: give it a row in rules_test.go", c.pkg)
		return
	}
	for _, spec := range file.Imports {
		imported := importPath(spec)
		switch {
		case within(imported, path.Join(module, c.pkg)), layer.allows(imported), c.isTest(file) && forTests.allows(imported):
		case within(imported, fx):
			if !layer.fx {
				c.report(spec.Pos(), "%s may not import fx: it appears only in app and in module.go above internal", c.pkg)
			} else if path.Base(c.filename(file)) != "module.go" {
				c.report(spec.Pos(), "%s may not import fx: every constructor works without it, only module.go knows it", c.filename(file))
			}
		case c.isTest(file):
			c.report(spec.Pos(), "a test of %s may not import %s: %s", c.pkg, imported, forTests.reason)
		default:
			c.report(spec.Pos(), "%s may not import %s: %s", c.pkg, imported, layer.reason)
		}
	}
}

// starts checks that the file does not start processes, unless it may.
func (c *checker) starts(file *ast.File) {
	const why = "whoever starts a process has to own its range, and that is what %s are for"
	if c.isTest(file) || slices.ContainsFunc(mayStart, func(p string) bool { return matches(p, c.pkg) }) {
		return
	}
	names := make(map[string]string) // of the imported packages that have starters
	for _, spec := range file.Imports {
		imported := importPath(spec)
		if imported == "os/exec" {
			c.report(spec.Pos(), "%s may not import os/exec: "+why, c.pkg, mayStart)
		}
		if _, ok := starters[imported]; !ok {
			continue
		}
		name := path.Base(imported)
		if spec.Name != nil {
			name = spec.Name.Name
		}
		if name == "." {
			c.report(spec.Pos(), "a dot import of %s hides who starts processes", imported)
		}
		names[name] = imported
	}
	ast.Inspect(file, func(n ast.Node) bool {
		selector, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		if pkg, ok := selector.X.(*ast.Ident); ok && slices.Contains(starters[names[pkg.Name]], selector.Sel.Name) {
			c.report(n.Pos(), "%s may not use %s.%s: "+why, c.pkg, names[pkg.Name], selector.Sel.Name, mayStart)
		}
		return true
	})
}

func (l layer) allows(imported string) bool {
	if within(imported, module) {
		rel := strings.TrimPrefix(strings.TrimPrefix(imported, module), "/")
		return slices.ContainsFunc(l.module, func(p string) bool { return p == anything || matches(p, rel) })
	}
	// Only the standard library's paths have no dot in their first element.
	if first, _, _ := strings.Cut(imported, "/"); !strings.Contains(first, ".") {
		return true
	}
	return slices.ContainsFunc(l.external, func(m string) bool { return m == anything || within(imported, m) })
}

// layerOf returns the layer of a package. A pattern that is longer than
// another and matches the same package names fewer packages.
func layerOf(pkg string) (layer, bool) {
	var found layer
	for _, l := range layers {
		if matches(l.path, pkg) && len(l.path) > len(found.path) {
			found = l
		}
	}
	return found, found.path != ""
}

func matches(pattern, pkg string) bool {
	if tree, ok := strings.CutSuffix(pattern, "/..."); ok {
		return within(pkg, tree)
	}
	return pattern == pkg
}

// within reports whether a path is tree or below it.
func within(p, tree string) bool { return p == tree || strings.HasPrefix(p, tree+"/") }

func importPath(spec *ast.ImportSpec) string {
	p, err := strconv.Unquote(spec.Path.Value)
	if err != nil {
		panic(err) // the parser has accepted it
	}
	return p
}

var wantComment = regexp.MustCompile(`// want "([^"]+)"`)

// readWants returns the want comments below root as violations.
func readWants(root string) (wants []violation, err error) {
	err = filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(name) != ".go" {
			return err
		}
		rel, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		src, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		for i, line := range strings.Split(string(src), "\n") {
			for _, m := range wantComment.FindAllStringSubmatch(line, -1) {
				wants = append(wants, violation{filepath.ToSlash(rel), i + 1, m[1]})
			}
		}
		return nil
	})
	return wants, err
}
