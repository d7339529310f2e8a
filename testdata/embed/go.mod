module example.com/embed

go 1.26.0

require (
	github.com/corral-world/corral v0.0.0
	go.uber.org/fx v1.24.0
)

require (
	github.com/charmbracelet/x/ansi v0.11.9 // indirect
	github.com/creack/pty v1.1.24 // indirect
	github.com/godbus/dbus/v5 v5.2.4 // indirect
	go.uber.org/dig v1.19.0 // indirect
	go.uber.org/multierr v1.10.0 // indirect
	go.uber.org/zap v1.26.0 // indirect
	golang.org/x/sys v0.50.0 // indirect
)

replace github.com/corral-world/corral => ../..
