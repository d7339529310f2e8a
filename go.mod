module github.com/corral-world/corral

go 1.26
