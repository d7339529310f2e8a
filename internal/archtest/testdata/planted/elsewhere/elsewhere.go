// Package elsewhere is in no layer.
package elsewhere // want "package elsewhere belongs to no layer"
