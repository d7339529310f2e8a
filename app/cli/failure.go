package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/corral-world/corral/app/config"
	"github.com/corral-world/corral/app/foreground"
	"github.com/corral-world/corral/seam"
)

// Exit codes other than a command's own, as timeout(1) and env(1) have them.
const (
	exitTimeout    = 124
	exitFailure    = 125 // Corral's own
	exitCannotRun  = 126
	exitNotFound   = 127
	exitSignalBase = 128
)

// fieldCommand names the command among the arguments.
const fieldCommand = "CMD"

// A failure is Corral's own, and what is told of it.
type failure struct {
	Code    string `json:"code"`
	Field   string `json:"field"`
	Message string `json:"message"`
	exit    int
}

// A usageError is a flag or argument that can't be used.
type usageError struct {
	field   string // "--timeout", fieldCommand
	problem string // completes the sentence that field begins
}

func (e *usageError) Error() string { return e.field + " " + e.problem }

// fail reports err, which kept the subcommand from doing its work, and returns
// the exit code.
func (inv *invocation) fail(err error) int {
	f := explain(err)
	if f.Field == fieldCommand && inv.script != "" {
		f.Field = "" // the shell of a script is not an argument
	}
	inv.console.line("corral: " + f.Message)
	if inv.wantsJSON(err) {
		object := struct {
			Argv   []string `json:"argv,omitempty"`
			Script string   `json:"script,omitempty"`
			Error  failure  `json:"error"`
		}{inv.argv, inv.script, f}
		if err := writeJSON(inv.program.Stdout, object); err != nil {
			inv.console.line("corral: " + err.Error())
			return exitFailure
		}
	}
	return f.exit
}

// wantsJSON: flags behind one that is wrong were not read. They are looked for.
// Where a report could not be written another one could not either.
func (inv *invocation) wantsJSON(err error) bool {
	if errors.Is(err, errReport) {
		return false
	}
	if inv.json || !isFlagError(err) {
		return inv.json
	}
	args := inv.program.Args
	if i := slices.Index(args, "--"); i >= 0 {
		args = args[:i]
	}
	return slices.Contains(args, "--json")
}

// explain classifies err.
func explain(err error) failure {
	f := failure{Code: string(seam.CodeInvalid), Message: err.Error(), exit: exitFailure}
	if usage, ok := errors.AsType[*usageError](err); ok {
		f.Field = usage.field
		return f
	}
	if setting, ok := errors.AsType[*config.Error](err); ok {
		f.Field = setting.Setting
		if flag, ok := strings.CutPrefix(setting.Origin, "flag "); ok {
			f.Field, f.Message = flag, flag+" "+setting.Problem
		}
		return f
	}
	if field, message, ok := explainFlag(err); ok {
		f.Field, f.Message = field, message
		return f
	}
	return explainWorld(err, f)
}

// explainWorld classifies an error of a world.
func explainWorld(err error, f failure) failure {
	if sig, ok := errors.AsType[*foreground.SignalError](err); ok {
		f.Code, f.exit = string(seam.CodeAborted), exitSignalBase+int(sig.Signal)
		return f
	}
	if _, ok := errors.AsType[*foreground.TimeoutError](err); ok {
		f.Code, f.exit = string(seam.CodeAborted), exitTimeout
		return f
	}
	code := seam.CodeOf(err)
	if code == "" {
		code = seam.CodeIO
	}
	f.Code = string(code)
	switch code {
	case seam.CodeExecutableNotFound, seam.CodeInterpreterNotFound:
		f.exit, f.Field = exitNotFound, fieldCommand
	case seam.CodeNotExecutable, seam.CodeTooLong:
		f.exit, f.Field = exitCannotRun, fieldCommand
	case seam.CodeDirNotFound, seam.CodeNotDir, seam.CodePermission:
		f.Field = "--dir"
	case seam.CodeContainment:
		f.Field = "--containment"
	}
	if field, ok := errors.AsType[*seam.FieldError](err); ok {
		if flag := flagOf(field.Field); flag != "" {
			f.Field = flag
			f.Message = strings.Replace(f.Message, field.Field, flag, 1)
		}
	}
	return f
}

// flagOf names the flag that becomes a field of a [seam.Spec].
func flagOf(field string) string {
	root, _, _ := strings.Cut(strings.ReplaceAll(field, "[", "."), ".")
	flags := map[string]string{
		"Argv": fieldCommand, "Script": fieldScript, "Dir": "--dir", "Env": "--env", "Stdin": "--stdin", "Grace": "--grace", "Drain": "--drain",
		"Name": "--name", "Require": "--require", "Detach": "--detach", "Containment": "--containment",
	}
	switch field {
	case "Limits.MemoryBytes":
		return "--limit-memory"
	case "Limits.Pids":
		return "--limit-pids"
	case "Limits.CPUs":
		return "--limit-cpus"
	}
	return flags[root]
}

func isFlagError(err error) bool {
	_, _, ok := explainFlag(err)
	return ok
}

// explainFlag rephrases an error of the flag parser.
func explainFlag(err error) (field, message string, ok bool) {
	if e, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		field = "--" + e.GetFlag().Name
		return field, field + " " + e.Unwrap().Error(), true
	}
	if e, ok := errors.AsType[*pflag.NotExistError](err); ok {
		field = "--" + e.GetSpecifiedName()
		if e.GetSpecifiedShortnames() != "" {
			field = "-" + e.GetSpecifiedName()
		}
		return field, field + " is not a flag", true
	}
	if e, ok := errors.AsType[*pflag.ValueRequiredError](err); ok {
		field = "--" + e.GetSpecifiedName()
		return field, field + " needs a value", true
	}
	if e, ok := errors.AsType[*pflag.InvalidSyntaxError](err); ok {
		return e.GetSpecifiedFlag(), e.GetSpecifiedFlag() + " is not a flag", true
	}
	return "", "", false
}

// errReport is matched where a report could not be written.
var errReport = errors.New("write the report")

// writeJSON writes v as one line.
func writeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return fmt.Errorf("%w: %w", errReport, err)
	}
	return nil
}
