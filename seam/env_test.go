package seam_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/corral-world/corral/seam"
)

func TestScrub(t *testing.T) {
	for _, c := range []struct {
		entry string
		scrub seam.Scrub
		keep  bool
	}{
		{entry: "PATH=/bin", keep: true},
		{entry: "HOME=/root", keep: true},
		{entry: "LC_ALL=C.UTF-8", keep: true},
		{entry: "EMPTY=", keep: true},
		{entry: "=C:=C:\\dir", keep: true},
		{entry: "AWS_SESSION_TOKEN=x"},
		{entry: "aws_secret=x"},
		{entry: "ApiKeyFile=x"},
		{entry: "X_PASSPHRASE=x"},
		{entry: "PGPASSWORD=x"},
		{entry: "MYSQL_PASSWD=x"},
		{entry: "GOOGLE_APPLICATION_CREDENTIALS=/x"},
		{entry: "SSH_AUTH_SOCK=/x"},
		{entry: "GPG_AGENT_INFO=/x"},
		{entry: "CORRAL_CONFIG=x"},
		{entry: "corral_x=x"},
		{entry: "BASH_FUNC_ls%%=() { echo hijacked; }"},
		{entry: "MONKEY=see"}, // a name heuristic errs on this side too
		{entry: "DATABASE_URL=postgres://u:pa%20ss@host/db"},
		{entry: "DATABASE_URL=postgres://u:p ss@host/db"},
		{entry: "DATABASE_URL=postgres://u@host/db", keep: true},
		{entry: "DATABASE_URL=postgres://host/db?at=@:", keep: true},
		{entry: "REPOSITORY=git@example.org:a/b", keep: true},
		{entry: "PEM=-----BEGIN RSA PRIVATE KEY-----\nx"},
		{entry: "CERT=-----BEGIN CERTIFICATE-----\nx", keep: true},
		{entry: "HTTPS_PROXY=http://u:p@proxy", keep: true},
		{entry: "https_proxy=http://u:p@proxy", keep: true},
		{entry: "MY_TOKEN=x", scrub: seam.Scrub{Allow: []string{"my_*"}}, keep: true},
		{entry: "INNOCENT=x", scrub: seam.Scrub{Deny: []string{"INNO*"}}},
		{entry: "INNOCENT=x", scrub: seam.Scrub{Allow: []string{"INNOCENT"}, Deny: []string{"INNO*"}}, keep: true},
		{entry: "PATH=/bin", scrub: seam.Scrub{AllowOnly: true}},
		{entry: "PATH=/bin", scrub: seam.Scrub{AllowOnly: true, Allow: []string{"PATH"}}, keep: true},
	} {
		t.Run(c.entry, func(t *testing.T) {
			kept, dropped := c.scrub.Apply([]string{c.entry})
			if got := len(kept) == 1; got != c.keep || len(kept)+len(dropped) != 1 {
				t.Errorf("kept %q, dropped %q, want kept %v", kept, dropped, c.keep)
			}
		})
	}
}

func TestScrubNamesDroppedOnce(t *testing.T) {
	_, dropped := seam.Scrub{}.Apply([]string{"Z_KEY=1", "A_KEY=2", "Z_KEY=3", "OK=4"})
	if want := []string{"A_KEY", "Z_KEY"}; !slices.Equal(dropped, want) {
		t.Errorf("got %q, want %q", dropped, want)
	}
}

func TestScrubRefusesPatterns(t *testing.T) {
	for field, scrub := range map[string]seam.Scrub{
		"Allow[1]": {Allow: []string{"OK", "[a"}},
		"Deny[0]":  {Deny: []string{""}},
	} {
		var bad *seam.FieldError
		if err := scrub.Validate(); !errors.As(err, &bad) || bad.Field != field {
			t.Errorf("got %v, want it to name %s", err, field)
		}
	}
}

func TestEnvApply(t *testing.T) {
	for _, c := range []struct {
		name string
		env  seam.Env
		fold bool
		want []string
	}{
		{"none", nil, false, []string{"A=1", "B=2"}},
		{"override", seam.Env{seam.Set("A", "9")}, false, []string{"A=9", "B=2"}},
		{"empty is a value", seam.Env{seam.Set("A", "")}, false, []string{"A=", "B=2"}},
		{"unset", seam.Env{seam.Unset("A")}, false, []string{"B=2"}},
		{"unset what is not there", seam.Env{seam.Unset("C")}, false, []string{"A=1", "B=2"}},
		{"the last wins", seam.Env{seam.Set("C", "1"), seam.Unset("C"), seam.Set("C", "3")}, false, []string{"A=1", "B=2", "C=3"}},
		{"case matters", seam.Env{seam.Set("a", "9")}, false, []string{"A=1", "B=2", "a=9"}},
		{"case is folded, the last spelling kept", seam.Env{seam.Set("a", "9")}, true, []string{"B=2", "a=9"}},
		{"folded unset", seam.Env{seam.Unset("b")}, true, []string{"A=1"}},
		{"a Windows drive", seam.Env{seam.Set("=C:", `C:\x`)}, true, []string{`=C:=C:\x`, "A=1", "B=2"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := c.env.Apply([]string{"A=1", "B=2"}, c.fold); !slices.Equal(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}
