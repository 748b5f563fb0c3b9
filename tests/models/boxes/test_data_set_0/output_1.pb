
Bt14_0J(ŽµA{LBpá+BoŒAe[¦Apá+Bÿ@\A’Ó¥AoŒA