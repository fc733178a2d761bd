module example.org/outside

go 1.26

require unmask v0.0.0

replace unmask => ../..
