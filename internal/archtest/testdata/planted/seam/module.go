package seam // want "package seam has no documentation"

import _ "go.uber.org/fx" // want "seam may not import fx"
