package testproc_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/corral-world/corral/internal/testproc"
)

func TestMain(m *testing.M) {
	testproc.Main()
	os.Exit(m.Run())
}

func TestCommand(t *testing.T) {
	argv := testproc.Command("print", "some output", "other output")
	if !filepath.IsAbs(argv[0]) {
		t.Errorf("program %q is no absolute path", argv[0])
	}
	cmd := exec.Command(argv[0], argv[1:]...)
	var errOut strings.Builder
	cmd.Stderr = &errOut
	out, err := cmd.Output()
	if string(out) != "some output" || errOut.String() != "other output" || err != nil {
		t.Errorf("got %q, %q and %v", out, errOut.String(), err)
	}
	argv = testproc.Command("exit", "7")
	if err := exec.Command(argv[0], argv[1:]...).Run(); err == nil || err.Error() != "exit status 7" {
		t.Errorf("got %v, want exit status 7", err)
	}
}

func TestCommandPanicsOnUnknownVerb(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	testproc.Command("no such verb")
}

// Every verb is named by a test, or by the contract suite. A key of a map is no
// use: worlds of other programs have the verbs as keys.
func TestEveryVerbIsUsed(t *testing.T) {
	const root = "../.."
	used := make(map[string]bool)
	fset := token.NewFileSet()
	err := filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (entry.Name() == "testproc" || entry.Name() == "testdata" || strings.HasPrefix(entry.Name(), ".") && name != root):
			return filepath.SkipDir
		case filepath.Ext(name) != ".go":
			return nil
		}
		file, err := parser.ParseFile(fset, name, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if pair, ok := n.(*ast.KeyValueExpr); ok {
				ast.Inspect(pair.Value, func(n ast.Node) bool { return mark(used, n) })
				return false
			}
			return mark(used, n)
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	unused := slices.DeleteFunc(testproc.Verbs(), func(verb string) bool { return used[verb] })
	if len(unused) > 0 {
		t.Errorf("no test uses the verbs %q", unused)
	}
}

func mark(used map[string]bool, n ast.Node) bool {
	if literal, ok := n.(*ast.BasicLit); ok && literal.Kind == token.STRING {
		if text, err := strconv.Unquote(literal.Value); err == nil {
			used[text] = true
		}
	}
	return true
}
