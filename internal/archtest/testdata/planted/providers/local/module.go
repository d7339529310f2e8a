package local

import _ "go.uber.org/fx"
