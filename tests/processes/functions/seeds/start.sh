# Each replica's strings hash differently.
PYTHONHASHSEED=$1 exec python server.py "$1"
