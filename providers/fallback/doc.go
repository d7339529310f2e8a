// Package fallback owns ranges on hosts where no native owner is to be had.
// What it promises is less, and it says what can escape.
package fallback
