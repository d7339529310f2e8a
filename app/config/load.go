package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/corral-world/corral/seam"
)

// FileVariable names the file where no flag does.
const FileVariable = seam.EnvPrefix + "CONFIG"

// maxFileBytes bounds what is read of a file.
const maxFileBytes = 1 << 20

// Sources are what a configuration is made of.
type Sources struct {
	// File is the file to read. Nil: the one that FileVariable names, else
	// corral/config.json in $XDG_CONFIG_HOME or ~/.config, if it exists.
	File *string

	// Environ is an environment, in the form of os.Environ. A variable that is
	// set and empty is as good as absent.
	Environ []string

	// Flags override everything else.
	Flags []Flag
}

// A Flag is a setting from the command line.
type Flag struct {
	Flag    string // as the user knows it: "--grace"
	Setting string
	Text    string
}

// Load reads and checks a configuration. The error is an [Error].
func Load(s Sources) (*Loaded, error) {
	l := &Loaded{Config: Default(), origins: make(map[string]string)}
	if err := l.loadFile(s); err != nil {
		return nil, err
	}
	known := []string{FileVariable}
	for _, setting := range settings() {
		known = append(known, setting.variable())
		text := lookup(s.Environ, setting.variable())
		if text == "" {
			continue
		}
		origin := "env " + setting.variable()
		if err := setting.setText(&l.Config, text); err != nil {
			return nil, &Error{Setting: setting.name, Problem: err.Error(), Origin: origin}
		}
		l.origins[setting.name] = origin
	}
	for _, flag := range s.Flags {
		if err := l.loadFlag(flag); err != nil {
			return nil, err
		}
	}
	l.Unknown = unknown(s.Environ, known)
	return l, nil
}

func (l *Loaded) loadFlag(flag Flag) error {
	i := slices.IndexFunc(settings(), func(s setting) bool { return s.name == flag.Setting })
	if i < 0 {
		panic("config: flag " + flag.Flag + " of no setting: " + flag.Setting)
	}
	origin := "flag " + flag.Flag
	if err := settings()[i].setText(&l.Config, flag.Text); err != nil {
		return &Error{Setting: flag.Setting, Problem: err.Error(), Origin: origin}
	}
	l.origins[flag.Setting] = origin
	return nil
}

// loadFile finds the file and reads it, if there is one.
func (l *Loaded) loadFile(s Sources) error {
	path, asked := lookup(s.Environ, FileVariable), true
	switch {
	case s.File != nil:
		path = *s.File
	case path == "":
		path, asked = defaultFile(s.Environ), false
	}
	if path == "" && !asked {
		return nil
	}
	origin := "file " + path
	data, err := readFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist) && !asked:
		return nil
	case err != nil:
		return &Error{Problem: err.Error(), Origin: origin, Err: err}
	}
	l.File = path
	return l.decode(data, origin)
}

// defaultFile is "" where the environment says of no home.
func defaultFile(environ []string) string {
	dir := lookup(environ, "XDG_CONFIG_HOME")
	if !filepath.IsAbs(dir) { // which the XDG specification says to ignore
		home := lookup(environ, "HOME")
		if !filepath.IsAbs(home) {
			return ""
		}
		dir = filepath.Join(home, ".config")
	}
	return filepath.Join(dir, "corral", "config.json")
}

// readFile reads a regular file; others may block, or never end.
func readFile(path string) ([]byte, error) {
	if path == "" {
		return nil, errors.New("the name is empty")
	}
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, bare(err)
	case !info.Mode().IsRegular():
		return nil, errors.New("is not a regular file")
	case info.Size() > maxFileBytes:
		return nil, fmt.Errorf("is larger than %d bytes", maxFileBytes)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, bare(err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFileBytes))
	return data, bare(err)
}

// bare strips the path, which the origin already tells.
func bare(err error) error {
	if pathErr, ok := errors.AsType[*fs.PathError](err); ok {
		return pathErr.Err
	}
	return err
}

// lookup returns the value of the first of equal names, as getenv does.
func lookup(environ []string, name string) string {
	for _, entry := range environ {
		if n, value, ok := strings.Cut(entry, "="); ok && n == name {
			return value
		}
	}
	return ""
}

func unknown(environ, known []string) []string {
	var names []string
	for _, entry := range environ {
		name, _, _ := strings.Cut(entry, "=")
		if strings.HasPrefix(name, seam.EnvPrefix) && !slices.Contains(known, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
