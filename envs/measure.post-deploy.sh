# Run by Snakemake once the environment is made: this package declares TensorFlow, which nothing here uses.
pip install --no-deps neural-tangents==0.6.5
